#!/usr/bin/env python3
"""llama.cpp's HTTP server, out of the wheel xllamacpp, on 127.0.0.1 until it is killed.

    llama.py MODEL.gguf PORT
"""
import signal
import sys

import xllamacpp

p = xllamacpp.CommonParams()
p.model.path = sys.argv[1]
p.hostnames, p.port = ["127.0.0.1"], int(sys.argv[2])
p.n_ctx, p.n_parallel = 131072, 4
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1  # threads that spin are slower than one on a busy machine
server = xllamacpp.Server(p)
signal.pause()
