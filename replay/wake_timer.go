package replay

import "time"

// wakeTimer fires when a time has passed. It may fire early or twice if it was set again meanwhile, so the receiver looks
// at the clock.
type wakeTimer interface {
	set(d time.Duration)
	C() <-chan time.Time
	close()
}

// runtimeTimer is a wakeTimer of the runtime. It may fire a millisecond late, which is the resolution of an idle
// runtime's sleep.
type runtimeTimer struct{ *time.Timer }

func newRuntimeTimer() wakeTimer { return runtimeTimer{time.NewTimer(time.Hour)} }

func (t runtimeTimer) set(d time.Duration) { t.Reset(d) }
func (t runtimeTimer) C() <-chan time.Time { return t.Timer.C }
func (t runtimeTimer) close()              { t.Stop() }
