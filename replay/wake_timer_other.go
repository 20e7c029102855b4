//go:build !linux

package replay

// newWakeTimer returns a timer of the runtime.
func newWakeTimer() wakeTimer { return newRuntimeTimer() }
