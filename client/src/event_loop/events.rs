// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a loop: callbacks and where each event is. Names are never reused.

use super::{Event, EventLoop};
use crate::Error;
use std::collections::HashMap;
use std::ffi::c_void;

pub enum Callback {
    Rust(Box<dyn FnMut(&mut EventLoop)>),
    /// An event that C holds; the loop's caller knows how to call it.
    Foreign(*mut c_void),
}

/// Where an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Idle,
    Due { due_ns: u64, nth: u64 },
    BestEffort { priority: u32, key: u64, nth: u64 },
    Awaiting { priority: u32, key: u64 },
}

struct Body {
    /// None while it runs.
    callback: Option<Callback>,
    place: Place,
    ready: u32,
}

#[derive(Default)]
pub struct Events {
    bodies: HashMap<Event, Body>,
    made: u64,
}

impl Events {
    pub fn insert(&mut self, callback: Callback) -> Event {
        self.made += 1;
        let event = Event(self.made);
        let body = Body {
            callback: Some(callback),
            place: Place::Idle,
            ready: 0,
        };
        self.bodies.insert(event, body);
        event
    }

    pub fn remove(&mut self, event: Event) {
        self.bodies.remove(&event);
    }

    pub fn place(&self, event: Event) -> Result<Place, Error> {
        match self.bodies.get(&event) {
            Some(body) => Ok(body.place),
            None => Err(Error::UnknownEvent),
        }
    }

    pub fn set_place(&mut self, event: Event, place: Place) {
        if let Some(body) = self.bodies.get_mut(&event) {
            body.place = place;
        }
    }

    pub fn is_submitted(&self, event: Event) -> bool {
        self.place(event).is_ok_and(|place| place != Place::Idle)
    }

    pub fn ready(&self, event: Event) -> u32 {
        self.bodies.get(&event).map_or(0, |body| body.ready)
    }

    pub fn set_ready(&mut self, event: Event, bits: u32) {
        if let Some(body) = self.bodies.get_mut(&event) {
            body.ready = bits;
        }
    }

    pub fn take_callback(&mut self, event: Event) -> Option<Callback> {
        self.bodies.get_mut(&event)?.callback.take()
    }

    /// After the call. If the callback has removed its own event, this drops it.
    pub fn put_back(&mut self, event: Event, callback: Callback) {
        if let Some(body) = self.bodies.get_mut(&event) {
            body.callback = Some(callback);
            body.ready = 0;
        }
    }

    pub fn foreign(&self) -> impl Iterator<Item = *mut c_void> + '_ {
        self.bodies.values().filter_map(|body| match body.callback {
            Some(Callback::Foreign(event)) => Some(event),
            _ => None,
        })
    }
}
