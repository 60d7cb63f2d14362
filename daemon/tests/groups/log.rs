// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the daemon writes to the log, however often users bring it to that.

use std::{
    fs,
    sync::{Arc, Mutex},
    time::Instant,
};

use consort_abi::{consort_request, CONSORT_HELLO};
use consort_daemon::wire;
use nix::errno::Errno;
use tracing::{subscriber::with_default, Event, Level, Subscriber};
use tracing_subscriber::{
    layer::{Context, SubscriberExt},
    registry, Layer,
};

use crate::{
    common::{leave, request},
    programs::announce,
    world::{World, USER},
};

/// Counts warnings.
#[derive(Debug, Default, Clone)]
struct Warnings(Arc<Mutex<usize>>);

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::WARN {
            *self.0.lock().unwrap() += 1;
        }
    }
}

/// How many there are while `doing` is done.
fn warnings(doing: impl FnOnce()) -> usize {
    let warnings = Warnings::default();
    with_default(registry().with(warnings.clone()), doing);
    let count = *warnings.0.lock().unwrap();
    count
}

/// No file can be written, as on a full disk.
fn fill(world: &World) {
    fs::create_dir(world.store().join("unfinished")).unwrap();
}

#[test]
fn a_full_disk_is_no_reason_to_fill_the_log() {
    let mut world = World::new();
    fill(&world);
    let group = |number| format!("[group.g{number}]\nmembers = [\"m{number}\"]\n");
    let text: String = (0..64).map(group).collect();
    let by_applying = warnings(|| {
        for _ in 0..50 {
            let (errno, _) = world.apply(USER, "film", &text).unwrap_err();
            assert_eq!(errno, Errno::EIO);
        }
    });
    assert!((1..10).contains(&by_applying), "{by_applying}");
}

#[test]
fn names_that_cannot_be_kept_do_not_fill_the_log() {
    let mut world = World::new();
    let (peer, now) = (world.peer(USER), Instant::now());
    world.service.connect(1, peer, now).unwrap();
    let mut ask = |request: consort_request| {
        let message = wire::request_bytes(request);
        let (reply, _) = world.service.handle(1, &message, message.len(), now);
        assert_eq!(reply.error, 0, "{}", reply.text);
    };
    ask(request(CONSORT_HELLO));
    let unfinished = world.folder.0.join("consort.groups/unfinished");
    let by_announcing = warnings(|| {
        for _ in 0..20 {
            let _ = fs::remove_file(&unfinished);
            fs::create_dir(&unfinished).unwrap();
            ask(announce(USER, 0, "show"));
            ask(leave(USER, 0));
            // It works now and then.
            fs::remove_dir(&unfinished).unwrap();
            ask(announce(USER, 0, "show"));
            ask(leave(USER, 0));
        }
    });
    assert!((1..10).contains(&by_announcing), "{by_announcing}");
}
