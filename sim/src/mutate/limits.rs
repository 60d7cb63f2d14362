// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bugs in limits of cgroups.

use super::Mutation;

pub const IN_LIMITS: [Mutation; 7] = [
    Mutation {
        name: "runs-for-nothing",
        file: "kernel/bpf/charge.h",
        from: "\tif (nr_limits)\n\t\tbudget_charge(t, ran_ns);\n\tdue_pay",
        to: "\tdue_pay",
    },
    Mutation {
        name: "sleeps-on-its-grant",
        file: "kernel/bpf/limits.h",
        from: "\tbudget_give_back(t);\n\tif (t->held_by)\n\t\tunhold(t);\n\treturn 0;",
        to: "\tif (t->held_by)\n\t\tunhold(t);\n\treturn 0;",
    },
    Mutation {
        name: "held-and-runnable",
        file: "kernel/bpf/limits.h",
        from: "\ttask_deactivate(t);\n\ttask_end(t);\n}",
        to: "\ttask_end(t);\n}",
    },
    Mutation {
        name: "held-for-ever",
        file: "kernel/bpf/limits.h",
        from: "\tset->limit.timer_at_ns = 0;\n\tif",
        to: "\tif",
    },
    Mutation {
        name: "first-of-many-let-go",
        file: "kernel/bpf/limits.h",
        from: "\tif (released == RELEASED_ONE || released == RELEASED_OVERDUE)\n\t\ttell_released(pid);",
        to: "\t(void)pid;",
    },
    Mutation {
        name: "burst-without-end",
        file: "core/limit.h",
        from: "\tif (left_ns >= full_ns)\n\t\treturn;",
        to: "\tfull_ns += nr * l->quota_ns;",
    },
    Mutation {
        name: "leaves-its-shard-held",
        file: "kernel/bpf/shards.h",
        from: "\tif (t->held_by)\n\t\tunhold(t);\n",
        to: "",
    },
];
