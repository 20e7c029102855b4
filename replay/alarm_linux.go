package replay

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// fileAlarm is a timer of the kernel that the runtime waits for as for a connection, and so to the microsecond.
type fileAlarm struct {
	file *os.File
	fd   int
	ring chan time.Time
	done chan struct{}
	deaf atomic.Bool // the file cannot be waited for: the runtime's timers must do
}

// newAlarm returns an alarm of the kernel, or one of the runtime where there is none.
func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimerAlarm()
	}
	a := &fileAlarm{file: os.NewFile(uintptr(fd), "timer"), fd: fd, ring: make(chan time.Time, 1), done: make(chan struct{})}
	go a.listen()
	return a
}

func (a *fileAlarm) listen() {
	defer close(a.done)
	var expired [8]byte
	for {
		_, err := a.file.Read(expired[:])
		a.deaf.Store(err != nil) // closed, or no file that can be waited for
		a.wake()
		if err != nil {
			return
		}
	}
}

func (a *fileAlarm) wake() {
	select {
	case a.ring <- time.Time{}:
	default: // the one before has not been heard
	}
}

func (a *fileAlarm) set(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))} // 0 would disarm it
	if err := unix.TimerfdSettime(a.fd, 0, &spec, nil); err != nil || a.deaf.Load() {
		time.AfterFunc(d, a.wake)
	}
}

func (a *fileAlarm) rings() <-chan time.Time { return a.ring }

func (a *fileAlarm) close() {
	_ = a.file.Close() // a timer has nothing to lose
	<-a.done
}
