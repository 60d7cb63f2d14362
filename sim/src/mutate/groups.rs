// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bugs in groups with decision functions.

use super::Mutation;

pub const IN_GROUPS: [Mutation; 21] = [
    Mutation {
        name: "interval-left-at-its-beginning",
        file: "core/function/plan.h",
        from: "p->at[middle].end_ns <= at_ns",
        to: "p->at[middle].start_ns <= at_ns",
    },
    Mutation {
        name: "last-round-of-a-plan",
        file: "core/function/plan.h",
        from: "\tif (i >= p->nr && p->repeat_ns) {\n\t\tround++;\n",
        to: "\tif (i >= p->nr && p->repeat_ns) {\n",
    },
    Mutation {
        name: "passed-over-and-not-counted",
        file: "core/function.h",
        from: "\tr->missed[why] += passed;\n",
        to: "",
    },
    Mutation {
        name: "closed-and-not-counted",
        file: "core/function.h",
        from: "\t} else {\n\t\tr->missed[why]++;",
        to: "\t} else if (why != MISS_ASLEEP) {\n\t\tr->missed[why]++;",
    },
    Mutation {
        name: "kept-interval-of-the-old-plan",
        file: "kernel/bpf/functions.h",
        from: "\tr->plan = f->staged;\n\trole_forget(r, bpf_ktime_get_ns());\n",
        to: "\tr->plan = f->staged;\n",
    },
    Mutation {
        name: "kept-role",
        file: "kernel/bpf/roles.h",
        from: "\tt->member.role = NULL;\n\tr->member = NULL;\n",
        to: "\tt->member.role = NULL;\n",
    },
    Mutation {
        name: "not-due-while-it-waits",
        file: "core/function.h",
        from: "\t\tdomain_await_due(d, m, now_ns);\n",
        to: "",
    },
    Mutation {
        name: "stays-where-it-waited",
        file: "core/function.h",
        from: "\t\theap_move(&d->group.ready, &m->node.ready, m->priority, m->key);\n",
        to: "\t\t;\n",
    },
    Mutation {
        name: "runs-on-after-its-interval",
        file: "kernel/bpf/roles.h",
        from: "return ends_ns < at_ns ? ends_ns : at_ns;",
        to: "return at_ns;",
    },
    Mutation {
        name: "no-new-budget",
        file: "core/function/period.h",
        from: "\tr->left_ns += periods * budget_ns;\n",
        to: "",
    },
    Mutation {
        name: "filled-beyond-its-mark",
        file: "core/function/pipeline.h",
        from: "\tif (level >= r->high)\n\t\treturn PIPELINE_IS_FULL",
        to: "\tif (level > r->high)\n\t\treturn PIPELINE_IS_FULL",
    },
    Mutation {
        name: "any-key-counts",
        file: "core/function/user.h",
        from: "r->key = key < USER_KEYLESS ? key : USER_NO_KEY;",
        to: "r->key = key;",
    },
    Mutation {
        name: "waits-by-its-old-key",
        file: "kernel/bpf/user.h",
        from: "\tif (r->key != before && m &&",
        to: "\tif (0 && m &&",
    },
    Mutation {
        name: "left-for-the-next-function",
        file: "kernel/bpf/user.h",
        from: "for (u32 i = hidden(nr); i < before && i < ROLES_MAX && can_loop;",
        to: "for (u32 i = hidden(nr); i < nr && i < ROLES_MAX && can_loop;",
    },
    Mutation {
        name: "written-for-the-next-function",
        file: "kernel/bpf/user.h",
        from: "\t\t\tc->asks_nr = ROLES_MAX;\n",
        to: "\t\t\t;\n",
    },
    Mutation {
        name: "answer-left-for-the-next-function",
        file: "kernel/bpf/user.h",
        from: "\tuser_clean(rec);\n",
        to: "\trec->answer = CONSORT_DF_NONE;\n",
    },
    Mutation {
        name: "not-compared-to-be-asked",
        file: "core/function/user.h",
        from: "return f->is_stale ? now_ns : f->ask_at_ns;",
        to: "return f->ask_at_ns;",
    },
    Mutation {
        name: "marked-for-ever",
        file: "kernel/bpf/user.h",
        from: "\t\t*asks_of(set, c->shard) = 0;\n",
        to: "",
    },
    Mutation {
        name: "wakes-before-its-group",
        file: "kernel/bpf/wake.h",
        from: "if (!is_first_of_domain(t, now_ns))",
        to: "if (false)",
    },
    Mutation {
        name: "group-without-its-rate",
        file: "kernel/bpf/join.h",
        from: "\t\tshare_reservation(t, set->reservation);\n\t\tt->by_domain = 1;\n",
        to: "\t\t;\n",
    },
    Mutation {
        name: "never-ahead-of-its-rate",
        file: "core/decide/period.h",
        from: "return vtime_before(g->vmin, vtime) && g->node.kind != NODE_RC;",
        to: "return 0;",
    },
];
