package capture

import "sync"

// flights counts the exchanges that are carried.
type flights struct {
	mu     sync.Mutex
	n      int
	shut   bool // no more begin
	landed []chan struct{}
}

// begin counts an exchange that begins. It reports false after last.
func (f *flights) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shut {
		return false
	}
	f.n++
	return true
}

// end counts one that ends.
func (f *flights) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	f.tell()
}

// tell tells those who wait that there are none. Its lock is held.
func (f *flights) tell() {
	if f.n == 0 {
		for _, c := range f.landed {
			close(c)
		}
		f.landed = nil
	}
}

// now returns how many there are.
func (f *flights) now() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// none returns a channel that is closed when there are none.
func (f *flights) none() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := make(chan struct{})
	f.landed = append(f.landed, c)
	f.tell()
	return c
}

// last is none, and lets no more begin.
func (f *flights) last() <-chan struct{} {
	f.mu.Lock()
	f.shut = true
	f.mu.Unlock()
	return f.none()
}
