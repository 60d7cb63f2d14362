// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds of the scheduler with one bug planted: what the search is worth is what it finds.

mod groups;
mod limits;

pub use groups::IN_GROUPS;
pub use limits::IN_LIMITS;

use crate::consort::Library;
use crate::error::Error;
use crate::explore::{explore, generate, try_apart, ExploreOptions, Verdict};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// One bug: in `file`, the text `from`, which must be there, becomes `to`.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    pub name: &'static str,
    pub file: &'static str,
    pub from: &'static str,
    pub to: &'static str,
}

const SCHEDULER: &str = "kernel/bpf/consort.bpf.c";

/// One of each kind that schedulers are known for.
pub const MUTATIONS: [Mutation; 39] = [
    Mutation {
        name: "unsigned-virtual-time",
        file: "core/vtime.h",
        from: "return (s64)(a - b) < 0;",
        to: "return a < b;",
    },
    Mutation {
        name: "dropped-wake-up",
        file: SCHEDULER,
        from: "\t\twake_kick(p, cpu, place, verdict, looks);",
        to: "\t\t(void)verdict;",
    },
    Mutation {
        name: "idles-beside-waiters",
        file: "kernel/bpf/alone.h",
        from: "waits_in(&s->place) || waits_in(&c->place)",
        to: "waits_in(&c->place)",
    },
    Mutation {
        name: "missed-affinity",
        file: "kernel/bpf/custody.h",
        from: "bpf_cpumask_test_cpu(cpu, p->cpus_ptr)",
        to: "true",
    },
    Mutation {
        name: "late-before-it-began",
        file: "kernel/bpf/run.h",
        from: "\t\tif (c->running != t)\n\t\t\tcontract_begin(t, now_ns);\n",
        to: "",
    },
    Mutation {
        name: "late-while-it-waits",
        file: "kernel/bpf/run.h",
        from: "t->yield_by_ns + d->grace_ns &&\n\t       ran_ns >=",
        to: "t->yield_by_ns + d->grace_ns ||\n\t       ran_ns >=",
    },
    Mutation {
        name: "borrows-far-before-the-floor",
        file: "core/decide/fair.h",
        from: "#define MEAN_MAX_NS 500000ULL",
        to: "#define MEAN_MAX_NS 50000000ULL",
    },
    Mutation {
        name: "first-turns-are-long",
        file: "kernel/bpf/run.h",
        from: "now_ns + tree_part_ns(",
        to: "now_ns + 20 * tree_part_ns(",
    },
    Mutation {
        name: "waits-anew-where-it-comes-to",
        file: "kernel/bpf/shards.h",
        from: "\t\t\ttask_wait_on(t, since_ns, now_ns);\n",
        to: "\t\t\ttask_wait(t, now_ns);\n",
    },
    Mutation {
        name: "gives-without-end",
        file: "core/place.h",
        from: "\tif (m && m->seat != s && seat_keeps(s))\n",
        to: "\tif (0)\n",
    },
    Mutation {
        name: "pays-without-end",
        file: "core/borrow.h",
        from: " && !seat_keeps(s);\n",
        to: ";\n",
    },
    Mutation {
        name: "leaked-timer",
        file: "kernel/bpf/timer.h",
        from: "\tc->timer_at_ns = NEVER_NS;\n",
        to: "",
    },
    Mutation {
        name: "double-insert",
        file: SCHEDULER,
        from: "\telse\n\t\ttask_take(next);",
        to: "",
    },
    Mutation {
        name: "unsettled-heap",
        file: "core/heap.h",
        from: "\theap_settle_up(parent);\n",
        to: "",
    },
    Mutation {
        name: "growing-weights",
        file: "core/tree.h",
        from: "\t\tg->weight_active -= n->weight;\n",
        to: "",
    },
    Mutation {
        name: "kept-memory",
        file: "kernel/bpf/groups.h",
        from: "if (set != root_set && set->id == id) {\n",
        to: "if (false) {\n",
    },
    Mutation {
        name: "kept-lock",
        file: SCHEDULER,
        from: "\t\tlock_release(&s->lock);\n\t\tif (!one_cpu)\n\t\t\tsteal(",
        to: "\t\tif (!one_cpu)\n\t\t\tsteal(",
    },
    Mutation {
        name: "no-lock",
        file: SCHEDULER,
        from: "\tlock_take(&s->lock);\n\tif (!one_cpu)\n\t\tflight_end(c);\n\tt = task_of_prev",
        to: "\tif (!one_cpu)\n\t\tflight_end(c);\n\tt = task_of_prev",
    },
    Mutation {
        name: "sleeper-stays-active",
        file: SCHEDULER,
        from: "task_deactivate(t);\n\ttask_end(t);\n\tlock_release(l);",
        to: "task_end(t);\n\tlock_release(l);",
    },
    Mutation {
        name: "lost-charge",
        file: "kernel/bpf/charge.h",
        from: "\ttask_charge_ns(t, ran_ns, now_ns);\n",
        to: "\t(void)now_ns;\n",
    },
    Mutation {
        name: "sleeper-stays-queued",
        file: "core/decide/coop.h",
        from: "\t\theap_remove(&d->asleep, &m->due);\n",
        to: "\t\t;\n",
    },
    Mutation {
        name: "debt-of-another-place",
        file: "core/decide/coop.h",
        from: "\tm->debt_vtime += domain_clock(to) - domain_clock(from);\n",
        to: "",
    },
    Mutation {
        name: "wakes-by-the-sleepers-clock",
        file: "core/decide/fair.h",
        from: "fair_wake_at(g, n->vtime - g->spare_vtime,",
        to: "fair_wake_at(g, n->vtime,",
    },
    Mutation {
        name: "minimum-left-behind",
        file: "core/decide/fair.h",
        from: "if (g->nr_active != n->active)",
        to: "if (g->nr_active != 1)",
    },
    Mutation {
        name: "slice-not-cut",
        file: "kernel/bpf/wake.h",
        from: "compare_at_ns <= now_ns + task_slice_ns(running, now_ns)",
        to: "compare_at_ns != NEVER_NS",
    },
    Mutation {
        name: "change-taken-for-a-pause",
        file: SCHEDULER,
        from: "if (!t || (!(flags & DEQ(SLEEP)) && scx_bpf_task_running(p)))",
        to: "if (!t)",
    },
    Mutation {
        name: "number-taken-for-a-thread",
        file: "kernel/bpf/members.h",
        from: "return !start_ticks ||",
        to: "return true ||",
    },
    Mutation {
        name: "uncounted-member",
        file: "kernel/bpf/members.h",
        from: "\t__sync_fetch_and_add(&set->nr_members, -1);\n",
        to: "",
    },
    Mutation {
        name: "kept-seat",
        file: SCHEDULER,
        from: "\tif (t->blocked)\n\t\tlend_end(t);\n\tif (waits_already",
        to: "\tif (waits_already",
    },
    Mutation {
        name: "kept-flight",
        file: "kernel/bpf/run.h",
        from: "\tflight_end(c);\n\tc->running = NULL;",
        to: "\tc->running = NULL;",
    },
    Mutation {
        name: "lock-looked-then-set",
        file: "kernel/bpf/lock.h",
        from: "return !*(volatile u32 __arena *)&l->next && !__sync_lock_test_and_set(&l->next, 1);",
        to: "if (*(volatile u32 __arena *)&l->next)\n\t\treturn false;\n\t__sync_lock_test_and_set(&l->next, 1);\n\treturn true;",
    },
    Mutation {
        name: "place-beside-forgotten",
        file: "kernel/bpf/run.h",
        from: "place_head(&s->place)->ready.top || waits_beside(c, cpu))",
        to: "place_head(&s->place)->ready.top)",
    },
    Mutation {
        name: "look-restarts-the-wait",
        file: "kernel/bpf/queue.h",
        from: "\tqueue_out(t);\n\trefresh(t);\n\treturn 0;\n}\n\ncore_fn task_show(struct task __arena *t in_arena, u64 now_ns)\n{\n\tqueue_in(t, now_ns);",
        to: "\ttake_out(t);\n\trefresh(t);\n\treturn 0;\n}\n\ncore_fn task_show(struct task __arena *t in_arena, u64 now_ns)\n{\n\tput_in(t, now_ns);",
    },
    Mutation {
        name: "owed-at-least",
        file: "core/decide/fair.h",
        from: "g->vmin - (lag < most ? lag : most)",
        to: "g->vmin - (lag > most ? lag : most)",
    },
    Mutation {
        name: "owing-counted-twice",
        file: "core/seat.h",
        from: "\tmember_owes_no_more(m);\n\tmember_wake_at(m, g);",
        to: "\tmember_wake_at(m, g);",
    },
    Mutation {
        name: "lag-stays-awake",
        file: "core/seat.h",
        from: "seat_become(s, s->counted - weight, all_ns - lead_ns);",
        to: "seat_become(s, s->counted - weight, all_ns);",
    },
    Mutation {
        name: "seat-waits-for-its-friends",
        file: "core/seat.h",
        from: "\tseat_wait(in);\n\tseat_wait_no_more(out);\n",
        to: "",
    },
    Mutation {
        name: "place-begins-behind",
        file: "kernel/bpf/queue.h",
        from: "if (!pl->root.nr_active)\n\t\t\tpl->root.vmin = clock;",
        to: "",
    },
    Mutation {
        name: "served-below-zero",
        file: "core/decide/coop.h",
        from: "if (m->served + SERVED_BEHIND_MAX < d->served_least)",
        to: "if (m->served < d->served_least - SERVED_BEHIND_MAX)",
    },
];

/// The folders of the repository that the scheduler is built from.
const FOLDERS: [&str; 4] = ["sim/shim", "kernel/bpf", "core", "abi"];
const SOURCES: [&str; 3] = ["scheduler.c", "maps.c", "timers.c"];

/// Copies the scheduler's sources from `repository` to the empty folder `into`, plants the bugs, builds and loads.
///
/// # Errors
/// The text of a mutation is not there, a file cannot be copied, or the compiler refuses.
pub fn build(repository: &Path, into: &Path, mutations: &[Mutation]) -> Result<Library, Error> {
    for folder in FOLDERS {
        copy(&repository.join(folder), &into.join(folder))?;
    }
    for mutation in mutations {
        plant(into, mutation)?;
    }
    let object = into.join("scheduler.so");
    compile(into, &object)?;
    Library::load(&object)
}

/// A seed, `first_seed` or later, whose scenario tells a build with a bug from the one of this repository; none within the
/// time.
///
/// # Errors
/// No process or memory to be had.
pub fn find(broken: &Library, first_seed: u64, time_max: Duration) -> Result<Option<u64>, Error> {
    let sound = Library::built_in();
    let begin = Instant::now();
    let mut first_seed = first_seed;
    loop {
        let Some(left) = time_max.checked_sub(begin.elapsed()) else {
            return Ok(None);
        };
        let options = ExploreOptions {
            first_seed,
            time_max: Some(left),
            shrink_runs_max: 0,
            ..ExploreOptions::default()
        };
        let Some(failure) = explore(&options, broken, &mut |_| {})?.failure else {
            return Ok(None);
        };
        if try_apart(&generate(failure.seed), &sound)? == Verdict::Fine {
            return Ok(Some(failure.seed));
        }
        first_seed = failure.seed + 1;
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let failed = |source| Error::System {
        doing: format!("copy {} to {}", from.display(), to.display()),
        source,
    };
    std::fs::create_dir_all(to).map_err(failed)?;
    for entry in std::fs::read_dir(from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let Some(name) = path.file_name() else {
            continue;
        };
        let target = to.join(name);
        if path.is_dir() && (name == "bpf" || name == "decide" || name == "function") {
            copy(&path, &target)?;
        } else if path.extension().is_some_and(|end| end == "h" || end == "c") {
            std::fs::copy(&path, &target).map_err(failed)?;
        }
    }
    Ok(())
}

fn plant(into: &Path, mutation: &Mutation) -> Result<(), Error> {
    let path = into.join(mutation.file);
    let failed = |source| Error::System {
        doing: format!("change {}", path.display()),
        source,
    };
    let text = std::fs::read_to_string(&path).map_err(failed)?;
    let found = text.matches(mutation.from).count();
    if found != 1 {
        return Err(Error::Setup {
            field: format!("mutation `{}`", mutation.name),
            found: format!("its text {found} times in {}", mutation.file),
            expected: "its text once: the source has changed, so must the mutation".to_owned(),
        });
    }
    std::fs::write(&path, text.replace(mutation.from, mutation.to)).map_err(failed)
}

fn compile(root: &Path, object: &Path) -> Result<(), Error> {
    let mut command = Command::new(env!("CONSORT_SIM_CLANG"));
    command.args([
        "-std=gnu11",
        "-O1",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-w",
    ]);
    command.args(["-DCONSORT_ABI_NO_LINUX_TYPES", "-D__arena="]);
    for folder in FOLDERS {
        command.arg("-I").arg(root.join(folder));
    }
    command.args(SOURCES.map(|source| root.join("sim/shim").join(source)));
    command.arg("-o").arg(object);
    let output = command.output().map_err(|source| Error::System {
        doing: format!("run {}", env!("CONSORT_SIM_CLANG")),
        source,
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Load {
        path: PathBuf::from(object).display().to_string(),
        why: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
