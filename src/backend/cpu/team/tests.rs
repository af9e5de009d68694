use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use super::*;

/// A clock that moves a little with every look, so that idle threads soon sleep.
fn now_ms() -> f64 {
    static TICKS: AtomicUsize = AtomicUsize::new(0);
    TICKS.fetch_add(1, Ordering::Relaxed) as f64 * 0.01
}

fn numbered(count: usize) -> Vec<usize> {
    (0..count).collect()
}

#[test]
fn every_part_is_worked_on_once_whatever_the_number_of_threads() {
    for size in 1..=5 {
        let team = Team::start(size, now_ms);
        assert_eq!(team.threads(), size);
        for count in [0, 1, 2, 3, 7, 64, 257] {
            let mut parts = numbered(count);
            for _ in 0..20 {
                team.run(&mut parts, |part| *part += 1000);
            }
            let want: Vec<_> = (0..count).map(|part| part + 20_000).collect();
            assert_eq!(parts, want, "{count} parts on {size} threads");
        }
        assert!(team.check().is_ok());
    }
}

#[test]
fn as_many_parts_are_worked_on_at_once_as_there_are_threads() {
    let team = Team::start(3, now_ms);
    // Nobody gets past it alone.
    let all = Barrier::new(3);
    let mut threads = [None; 3];
    for _ in 0..50 {
        team.run(&mut threads, |thread| {
            all.wait();
            *thread = Some(thread::current().id());
        });
    }
    assert_ne!(threads[0], threads[1]);
    assert_ne!(threads[1], threads[2]);
    assert_ne!(threads[2], threads[0]);
}

#[test]
fn threads_that_sleep_are_woken_by_the_next_work() {
    let team = Team::start(3, now_ms);
    let mut parts = numbered(9);
    for pause_ms in [0, 1, 5, 0, 20] {
        thread::sleep(Duration::from_millis(pause_ms));
        team.run(&mut parts, |part| *part += 1);
    }
    assert_eq!(parts, (5..14).collect::<Vec<_>>());
}

#[test]
fn a_caller_that_is_done_first_waits_for_the_others() {
    let team = Team::start(2, now_ms);
    let (caller, both) = (thread::current().id(), Barrier::new(2));
    let mut parts = [1, 2];
    team.run(&mut parts, |part| {
        both.wait();
        if thread::current().id() != caller {
            thread::sleep(Duration::from_millis(30));
        }
        *part += 10;
    });
    assert_eq!(parts, [11, 12]);
}

#[test]
fn work_inside_of_work_is_done_by_its_caller() {
    let team = Team::start(2, now_ms);
    let mut parts = [[1, 2], [3, 4]];
    team.run(&mut parts, |inner| team.run(inner, |part| *part *= 10));
    assert_eq!(parts, [[10, 20], [30, 40]]);
}

#[test]
fn a_panic_on_another_thread_is_told_and_ends_nothing_else() {
    let team = Team::start(2, now_ms);
    let (caller, both) = (thread::current().id(), Barrier::new(2));
    team.run(&mut [(); 2], |()| {
        both.wait();
        assert_eq!(thread::current().id(), caller, "the other one fails");
    });
    let error = team.check().expect_err("a part was not done");
    assert_eq!(error.code(), "internal");
    assert!(error.to_string().contains("stopped"), "{error}");
    // The caller goes on alone; the failure stays.
    let mut parts = numbered(5);
    team.run(&mut parts, |part| *part += 1);
    assert_eq!(parts, [1, 2, 3, 4, 5]);
    assert!(team.check().is_err());
}

#[test]
fn a_panic_of_the_caller_waits_for_the_others() {
    let team = Team::start(2, now_ms);
    let done = Arc::new(AtomicUsize::new(0));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut parts = [0_u64, 30];
        team.run(&mut parts, |part| {
            assert!(*part > 0, "the first part fails");
            thread::sleep(Duration::from_millis(*part));
            done.fetch_add(1, Ordering::SeqCst);
        });
    }));
    assert!(caught.is_err());
    assert_eq!(done.load(Ordering::SeqCst), 1);
    let mut parts = numbered(4);
    team.run(&mut parts, |part| *part += 1);
    assert_eq!(parts, [1, 2, 3, 4]);
}

#[test]
fn a_member_that_does_not_come_is_not_waited_for() {
    let crew = Crew::new(now_ms);
    let helper = crew.enlist().expect("there is room");
    let mut parts = numbered(9);
    crew.run(&mut parts, &|part| *part += 1);
    assert_eq!(parts, (1..10).collect::<Vec<_>>());
    assert!(!crew.has_failed());
    drop(helper);
}

#[test]
fn a_thread_that_is_stopped_in_its_work_is_not_waited_for() {
    let crew = Crew::new(now_ms);
    let helper = crew.enlist().expect("there is room");
    thread::spawn(move || helper.help());
    let caller = thread::current().id();
    let both = Barrier::new(2);
    let mut parts = [1, 2];
    thread::scope(|scope| {
        scope.spawn(|| {
            // Its thread never comes out again, as if it had been ended.
            thread::sleep(Duration::from_millis(30));
            crew.abandon();
        });
        crew.run(&mut parts, &|part| {
            both.wait();
            while thread::current().id() != caller {
                thread::park();
            }
            *part += 10;
        });
    });
    assert!(parts == [11, 2] || parts == [1, 12], "{parts:?}");
    assert!(crew.has_failed());
}

#[test]
fn members_that_have_to_go_go_and_the_rest_works_on() {
    let crew = Crew::new(now_ms);
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let helper = crew.enlist().expect("there is room");
            thread::spawn(move || helper.help())
        })
        .collect();
    assert_eq!(crew.size(), 4);
    crew.shrink(std::num::NonZeroUsize::MIN.saturating_add(1));
    assert_eq!(crew.size(), 2);
    let (stay, go): (Vec<_>, Vec<_>) = threads.into_iter().enumerate().partition(|(i, _)| *i == 0);
    for (_, thread) in go {
        thread.join().expect("it leaves");
    }
    let both = Barrier::new(2);
    crew.run(&mut [(); 2], &|()| {
        both.wait();
    });
    crew.shrink(std::num::NonZeroUsize::MIN);
    for (_, thread) in stay {
        thread.join().expect("it leaves");
    }
}

#[test]
fn no_more_members_work_than_are_asked() {
    let team = Team::start(4, now_ms);
    let crew = team.crew.as_ref().expect("it has started one");
    for round in 0..60 {
        let size = round % 4 + 1;
        let mut parts = [None; 16];
        crew.run_on(size, &mut parts, &|part| {
            // Long enough for all to come.
            thread::sleep(Duration::from_micros(100));
            *part = Some(thread::current().id());
        });
        let threads: HashSet<_> = parts.into_iter().collect();
        assert!(!threads.contains(&None));
        assert!(threads.len() <= size, "{} of {size}", threads.len());
    }
}

#[test]
fn a_team_that_is_dropped_while_idle_leaves_no_thread() {
    for pause_ms in [0, 10] {
        let team = Team::start(3, now_ms);
        thread::sleep(Duration::from_millis(pause_ms));
        // Joins its threads: it would not return otherwise.
        drop(team);
    }
}
