# SPDX-License-Identifier: MIT OR Apache-2.0
"""A daemon without a scheduler: hands out pages, writes requests down, says yes."""

import mmap
import os
import socket
import struct
import threading

MAGIC = 0x54534E43
NEVER = 2**64 - 1
HELLO, JOIN, LEAVE, RESERVE, USAGE, ANNOUNCE = 1, 2, 3, 5, 9, 10
# consort_request, consort_reply, of consort_abi.h.
REQUEST = struct.Struct("=IHHiIQII64s")
REPLY = struct.Struct("=IHHiI192s")
MAPPING_BYTES = 12288
VARIABLES_AT, VARIABLES_BYTES = 4096, 128


class Daemon:
    def __init__(self, path):
        self.requests = []
        self.pages = []
        self.refuse = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(path)
        self._socket.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._socket.close()

    def of(self, kind):
        return [request for request in self.requests if request[2] == kind]

    def name(self, kind):
        return self.of(kind)[-1][8].split(b"\0")[0].decode()

    def state(self, slot):
        return struct.unpack_from("=4q", self.pages[0], VARIABLES_AT + slot * VARIABLES_BYTES)

    def told(self, slot):
        """Submissions, done, triggers."""
        return struct.unpack_from("=3I", self.pages[0], VARIABLES_AT + slot * VARIABLES_BYTES + 32)

    def next(self, slot):
        """What the slot's thread wants next: due_ns, priority, key."""
        due_ns, key, priority = struct.unpack_from("=QQI", self.pages[-1], 64 + 64 * slot)
        return due_ns, priority, key

    def set_control(self, slot, index, value):
        at = VARIABLES_AT + slot * VARIABLES_BYTES + 64 + 8 * index
        struct.pack_into("=q", self.pages[0], at, value)

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        while message := connection.recv(4096):
            request = REQUEST.unpack(message)
            self.requests.append(request)
            kind, slot = request[2], request[4]
            errno = self.refuse.get(kind, 0)
            text = b"no: because the test says so" if errno else b""
            reply = REPLY.pack(MAGIC, 1, kind, errno, 7, text)
            files = []
            if kind == HELLO:
                files = [self._page()]
            if kind == JOIN:
                # The scheduler's half of the slot: no yield-by time, nobody else, a member.
                struct.pack_into("=QQQII", self.pages[0], 64 + 64 * slot + 32, NEVER, NEVER, 0, 0xFFFFFFFF, 1)
            if kind == USAGE and not errno:
                unknown = 0xFFFFFFFF
                reply += struct.pack("=10I", 250000, 0, 0, 500000, 100000, unknown, unknown, unknown, 3, 2)
            socket.send_fds(connection, [reply], files)
            for file in files:
                os.close(file)

    def _page(self):
        file = os.memfd_create("page")
        os.ftruncate(file, MAPPING_BYTES)
        page = mmap.mmap(file, MAPPING_BYTES)
        struct.pack_into("=IIII", page, 0, MAGIC, 1, 1, MAPPING_BYTES)
        self.pages.append(page)
        return file
