package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// interruptible returns a context that the first INT, TERM or HUP cancels; the second exits at once. HUP is left alone if
// the program was started to survive its terminal (nohup).
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go watchSignals(signals, time.Now, cancel, func() { os.Exit(exitInterrupted) })
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

// sameSignal is how long after the first signal another one counts as the same: timeout(1) signals its child and then the
// whole process group, and a closing terminal may send two signals.
const sameSignal = 500 * time.Millisecond

// watchSignals calls cancel at the first signal, and leave at the next one that does not count as the same.
func watchSignals(signals <-chan os.Signal, now func() time.Time, cancel, leave func()) {
	if _, ok := <-signals; !ok {
		return
	}
	first := now()
	cancel()
	for range signals {
		if now().Sub(first) >= sameSignal {
			leave()
			return
		}
	}
}
