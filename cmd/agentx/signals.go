package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// interruptible returns a context that the first INT, TERM or HUP cancels; the second leaves at once. A program that was
// started to go on without its terminal does not hear HUP.
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

// sameSignal is how long after the first signal another counts as the same: timeout(1) sends its signal to its child and
// then to the whole group of processes, and a terminal that goes away may send two.
const sameSignal = 500 * time.Millisecond

// watchSignals calls cancel at the first signal and leave at the next that is not the same, until there are no more.
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
