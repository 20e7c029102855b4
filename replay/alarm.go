package replay

import "time"

// alarm rings when a time has passed. A ring may come early or twice, when the alarm was set anew meanwhile: whoever hears
// it looks at the clock.
type alarm interface {
	set(d time.Duration)
	rings() <-chan time.Time
	close()
}

// timerAlarm is an alarm of the runtime. It may ring a millisecond late: that is how finely the runtime sleeps when it has
// nothing else to do.
type timerAlarm struct{ *time.Timer }

func newTimerAlarm() alarm { return timerAlarm{time.NewTimer(time.Hour)} }

func (a timerAlarm) set(d time.Duration)     { a.Reset(d) }
func (a timerAlarm) rings() <-chan time.Time { return a.C }
func (a timerAlarm) close()                  { a.Stop() }
