package replay

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fileAlarm is a timer of the kernel that the runtime waits for as for a connection, and so to the microsecond.
type fileAlarm struct {
	file *os.File
	fd   int
	ring chan time.Time
	done chan struct{}
}

// newAlarm returns an alarm of the kernel, or one of the runtime where there is none.
func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newTimerAlarm()
	}
	a := &fileAlarm{os.NewFile(uintptr(fd), "timer"), fd, make(chan time.Time, 1), make(chan struct{})}
	go a.listen()
	return a
}

func (a *fileAlarm) listen() {
	defer close(a.done)
	var expired [8]byte
	for {
		if _, err := a.file.Read(expired[:]); err != nil {
			return // closed
		}
		select {
		case a.ring <- time.Time{}:
		default: // the one before has not been heard
		}
	}
}

func (a *fileAlarm) set(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))} // 0 would disarm it
	if err := unix.TimerfdSettime(a.fd, 0, &spec, nil); err != nil {
		select { // an alarm that cannot be set rings
		case a.ring <- time.Time{}:
		default:
		}
	}
}

func (a *fileAlarm) rings() <-chan time.Time { return a.ring }

func (a *fileAlarm) close() {
	_ = a.file.Close() // a timer has nothing to lose
	<-a.done
}
