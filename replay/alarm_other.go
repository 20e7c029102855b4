//go:build !linux

package replay

// newAlarm returns an alarm of the runtime.
func newAlarm() alarm { return newTimerAlarm() }
