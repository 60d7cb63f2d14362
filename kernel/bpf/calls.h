/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls: what the daemon asks of its scheduler.
 *
 * Problem  Each program is loaded with a copy of all functions that it uses, and each copy is verified. Most of what the daemon
 *          calls uses the same ones: with a program for each call these copies were a third of the time that a scheduler
 *          takes to load.
 * Rule     One program, which is told what is called. What another build of the daemon has to call is a program of its own,
 *          as its numbers may be others (handover.h).
 */
#ifndef CONSORT_CALLS_H
#define CONSORT_CALLS_H

#include "bill.h"
#include "functions.h"
#include "handover.h"
#include "join.h"
#include "members.h"
#include "reservations.h"
#include "setup.h"
#include "user.h"

/* The kernel refuses the address of a part of a program's arguments: each function has them all, by its own struct. */
SEC("syscall")
int consort_call(struct consort_call_args *args)
{
	USES_ARENA();
	switch (args->call) {
	case CONSORT_CALL_INIT_ARENA:
		return consort_init_arena((void *)args);
	case CONSORT_CALL_DOMAIN_CREATE:
		return consort_domain_create((void *)args);
	case CONSORT_CALL_DOMAIN_DESTROY:
		return consort_domain_destroy((void *)args);
	case CONSORT_CALL_JOIN:
		return consort_join((void *)args);
	case CONSORT_CALL_LEAVE:
		return consort_leave((void *)args);
	case CONSORT_CALL_LEAVE_OTHERS:
		return consort_leave_others((void *)args);
	case CONSORT_CALL_BILL:
		return consort_bill((void *)args);
	case CONSORT_CALL_PLAN:
		return consort_plan((void *)args);
	case CONSORT_CALL_ROLE:
		return consort_role((void *)args);
	case CONSORT_CALL_USER:
		return consort_user((void *)args);
	case CONSORT_CALL_CLASSES:
		return consort_classes((void *)args);
	case CONSORT_CALL_RESERVATION_CREATE:
		return consort_reservation_create((void *)args);
	case CONSORT_CALL_RESERVATION_CHANGE:
		return consort_reservation_change((void *)args);
	case CONSORT_CALL_RESERVATION_ADD:
		return consort_reservation_add((void *)args);
	case CONSORT_CALL_RESERVATION_ADOPT:
		return consort_reservation_adopt((void *)args);
	case CONSORT_CALL_RESERVATION_END:
		return consort_reservation_end((void *)args);
	case CONSORT_CALL_RESERVATION_USAGE:
		return consort_reservation_usage((void *)args);
	}
	return -EOPNOTSUPP;
}

#endif
