package replay

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// fileTimer is a timer of the kernel. The runtime waits for its file as for a connection, and so to the microsecond.
type fileTimer struct {
	file     *os.File
	fd       int
	c        chan time.Time
	done     chan struct{} // closed when read has returned
	fallback atomic.Bool   // the file cannot be read: timers of the runtime take over
}

// newWakeTimer returns a timer of the kernel, or one of the runtime if the kernel has none.
func newWakeTimer() wakeTimer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newRuntimeTimer()
	}
	t := &fileTimer{file: os.NewFile(uintptr(fd), "timer"), fd: fd, c: make(chan time.Time, 1), done: make(chan struct{})}
	go t.read()
	return t
}

// read fires whenever the kernel's timer has expired, until the file cannot be read.
func (t *fileTimer) read() {
	defer close(t.done)
	var expired [8]byte
	for {
		_, err := t.file.Read(expired[:])
		t.fallback.Store(err != nil)
		t.fire()
		if err != nil {
			return
		}
	}
}

// fire sends an expiry, unless one waits to be received.
func (t *fileTimer) fire() {
	select {
	case t.c <- time.Time{}:
	default: // the last one has not been received
	}
}

func (t *fileTimer) set(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))} // 0 would disarm it
	if err := unix.TimerfdSettime(t.fd, 0, &spec, nil); err != nil || t.fallback.Load() {
		time.AfterFunc(d, t.fire)
	}
}

func (t *fileTimer) C() <-chan time.Time { return t.c }

func (t *fileTimer) close() {
	_ = t.file.Close() // a timer has nothing to lose
	<-t.done
}
