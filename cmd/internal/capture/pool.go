package capture

import "sync"

// pool runs what is pure: a fixed number of workers take tasks in their order. The memory of what waits for workers, or for the order
// of requests, is bounded.
type pool struct {
	limit int64
	news  news

	mu       sync.Mutex
	more     sync.Cond
	tasks    []func()
	lanes    int   // that are taken
	bytes    int64 // of all shares
	busy     int   // workers with a task
	finished int   // tasks
	shut     bool
	dropped  bool          // what is left is not done
	left     chan struct{} // closed when callers stop waiting for tasks
	done     sync.WaitGroup
}

// news wakes the end of a capture, which waits, when something has got done.
type news chan struct{}

// tell wakes the goroutine that waits for news. It never blocks.
func (n news) tell() {
	select {
	case n <- struct{}{}:
	default: // it is told
	}
}

// overhead is what a chunk or a prompt counts besides its bytes.
const overhead = 512

// newPool starts the workers of a pool, in which at most limit bytes may wait.
func newPool(workers int, limit int64) *pool {
	p := &pool{limit: limit, news: make(news, 1), left: make(chan struct{})}
	p.more.L = &p.mu
	for range workers {
		p.done.Go(p.work)
	}
	return p
}

// work is a worker: it runs tasks until the pool is closed and nothing is left.
func (p *pool) work() {
	for {
		task := p.take()
		if task == nil {
			return
		}
		task()
		p.finish()
	}
}

// take waits for a task; nil after close, when nothing is left to do.
func (p *pool) take() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.tasks) == 0 && (!p.shut || p.lanes > 0 && !p.dropped) {
		p.more.Wait()
	}
	if len(p.tasks) == 0 {
		return nil
	}
	task := p.tasks[0]
	p.tasks[0] = nil
	p.tasks = p.tasks[1:]
	p.busy++
	return task
}

// finish counts a task that has ended.
func (p *pool) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished++
	p.busy--
	p.news.tell()
}

// lane lets one task at a time begin: those of a session, of which each then finds what the one before has read. The pool guards it.
type lane struct {
	taken bool
	tasks []func() // behind the one that has it
}

// run queues a task for a worker, once its lane is free; the task has the lane until free is called. A nil lane is none. The task must
// not panic.
func (p *pool) run(l *lane, task func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.shut:
	case l != nil && l.taken:
		l.tasks = append(l.tasks, task)
	default:
		if l != nil {
			l.taken = true
			p.lanes++
		}
		p.tasks = append(p.tasks, task)
		p.more.Signal()
	}
}

// free lets the next task of a lane run, whose last one has ended.
func (p *pool) free(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.news.tell()
	if len(l.tasks) == 0 || p.dropped {
		l.taken, l.tasks = false, nil
		if p.lanes--; p.shut { // workers may have nothing left to do
			p.more.Broadcast()
		}
		return
	}
	p.tasks = append(p.tasks, l.tasks[0])
	l.tasks[0] = nil
	l.tasks = l.tasks[1:]
	p.more.Signal()
}

// share is the memory that one exchange takes of the queue, or all exchanges of a session.
type share struct {
	bytes int64  // guarded by the pool
	of    *share // of its session, nil before it has one
}

// whole returns the share of the session, or that of the exchange while it has no session.
func (s *share) whole() *share {
	if s.of != nil {
		return s.of
	}
	return s
}

// hold takes room for bytes. It reports false where there is none, or the session would have more than three quarters of all: room for a
// request of the largest size, which occurs twice while a worker joins its pieces.
func (p *pool) hold(s *share, bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes+bytes > p.limit || s.whole().bytes+bytes > p.limit/4*3 {
		return false
	}
	p.add(s, bytes)
	return true
}

// release gives room back that hold has taken.
func (p *pool) release(s *share, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(s, -bytes)
}

// add changes what a share has. The pool's lock is held.
func (p *pool) add(s *share, bytes int64) {
	p.bytes += bytes
	s.bytes += bytes
	if s.of != nil {
		s.of.bytes += bytes
	}
}

// join makes the share of an exchange a part of that of its session.
func (p *pool) join(s, session *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.of = session
	session.bytes += s.bytes
}

// used returns the bytes that are held.
func (p *pool) used() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// call runs a task and waits for it. It reports false if the task has not ended when callers stop waiting; it may then still
// run.
func (p *pool) call(task func()) bool {
	done := make(chan struct{})
	p.run(nil, func() {
		defer close(done)
		task()
	})
	select {
	case <-done:
		return true
	case <-p.left:
		return false
	}
}

// progress returns how many tasks have ended.
func (p *pool) progress() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finished
}

// resting reports whether nothing is left to do.
func (p *pool) resting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy == 0 && len(p.tasks) == 0 && p.lanes == 0
}

// end takes no more tasks, and wakes all workers and callers.
func (p *pool) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shut {
		p.shut = true
		close(p.left)
	}
	p.more.Broadcast()
}

// close runs what is left and ends the workers.
func (p *pool) close() {
	p.end()
	p.done.Wait()
}

// giveUp drops what is left. Workers that are stuck stay.
func (p *pool) giveUp() {
	p.mu.Lock()
	clear(p.tasks)
	p.tasks, p.dropped = nil, true
	p.mu.Unlock()
	p.end()
}
