// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trains where no scheduler is: calls that end as they should. Tids are real, so threads are servers.

use consort::{now_ns, Error, Train, NEVER};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const MS: u64 = 1_000_000;

fn gettid() -> u32 {
    // SAFETY: no arguments, no errors.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// A server that serves one call: it does what `body` does with it.
fn with_server<T: Send>(
    body: impl FnOnce() -> T + Send,
    client: impl FnOnce(u32, &dyn Fn()) -> Result<(), Error>,
) -> (Result<(), Error>, T) {
    let (tell, number) = channel();
    let (go, gone) = channel();
    thread::scope(|scope| {
        let server = scope.spawn(move || {
            tell.send(gettid()).unwrap();
            gone.recv().unwrap();
            body()
        });
        let answer = client(number.recv().unwrap(), &|| go.send(()).unwrap());
        (answer, server.join().unwrap())
    })
}

#[test]
fn a_call_ends_when_the_server_ends_it() {
    let train = Train::new();
    for late_ms in [0, 20] {
        let body = || {
            thread::sleep(Duration::from_millis(late_ms));
            train.end()
        };
        let (answer, end) = with_server(body, |server, go| {
            train.begin(server)?;
            go();
            train.wait(NEVER)
        });
        answer.unwrap();
        end.unwrap();
        train.wait(0).unwrap();
    }
}

#[test]
fn an_answer_before_the_client_waits_is_not_lost() {
    let train = Train::new();
    let (answer, end) = with_server(
        || train.end(),
        |server, go| {
            train.begin(server)?;
            go();
            thread::sleep(Duration::from_millis(50));
            train.wait(NEVER)
        },
    );
    answer.unwrap();
    end.unwrap();
}

#[test]
fn a_call_that_takes_too_long_goes_on() {
    let train = Train::new();
    let (answer, end) = with_server(
        || train.end(),
        |server, go| {
            train.begin(server)?;
            let late = train.wait(now_ns() + 5 * MS).unwrap_err();
            assert!(matches!(late, Error::NotAnswered { server: it } if it == server));
            assert_eq!(late.errno(), libc::ETIMEDOUT);
            let busy = train.begin(server).unwrap_err();
            assert_eq!(busy.errno(), libc::EBUSY);
            go();
            train.wait(NEVER)
        },
    );
    answer.unwrap();
    end.unwrap();
}

#[test]
fn the_end_of_the_server_ends_the_call() {
    let train = Train::new();
    let (answer, ()) = with_server(
        || thread::sleep(Duration::from_millis(20)),
        |server, go| {
            train.begin(server)?;
            go();
            train.wait(NEVER)
        },
    );
    let ended = answer.unwrap_err();
    assert!(matches!(ended, Error::NoServer { .. }), "{ended}");
    assert_eq!(ended.errno(), libc::ESRCH);
    let number = thread::spawn(gettid).join().unwrap();
    train.begin(number).unwrap();
    let ended = train.wait(NEVER).unwrap_err();
    assert!(matches!(ended, Error::NoServer { server } if server == number));
    train.wait(NEVER).unwrap(); // no call is left
}

#[test]
fn who_is_not_the_server_ends_nothing() {
    let train = Train::new();
    assert_eq!(train.end().unwrap_err().errno(), libc::EPERM);
    assert_eq!(train.begin(0).unwrap_err().errno(), libc::ESRCH);
    assert_eq!(train.begin(u32::MAX).unwrap_err().errno(), libc::ESRCH);
    assert_eq!(train.begin(gettid()).unwrap_err().errno(), libc::EDEADLK);
    let (answer, end) = with_server(
        || train.end(),
        |server, go| {
            train.begin(server)?;
            assert!(matches!(train.end(), Err(Error::NotTheServer)));
            go();
            train.wait(NEVER)
        },
    );
    answer.unwrap();
    end.unwrap();
    assert!(matches!(train.end(), Err(Error::NotTheServer)));
}

#[test]
fn two_that_wait_for_each_other_are_told() {
    let (there, back) = (Train::new(), Train::new());
    let this = gettid();
    let waits_back = || {
        back.begin(this).unwrap();
        back.wait(NEVER)
    };
    let (answer, other) = with_server(
        || {
            let told = waits_back();
            (told, there.end())
        },
        |server, go| {
            there.begin(server)?;
            go();
            let told = there.wait(NEVER);
            if told.is_err() {
                back.end().unwrap();
            }
            told
        },
    );
    let circles = [&answer, &other.0]
        .iter()
        .filter(|told| matches!(told, Err(Error::Circle)))
        .count();
    assert_eq!(circles, 1, "{answer:?} {other:?}");
}
