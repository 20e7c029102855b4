package capture

import "sync"

// pool runs what is pure: a fixed number of workers take tasks in their order. Tasks say how many bytes they hold, and those
// of all together are bounded.
type pool struct {
	limit int64

	mu    sync.Mutex
	more  sync.Cond
	tasks []func()
	bytes int64
	busy  int // workers with a task
	shut  bool
	rest  sync.Cond // nothing is left to do
	done  sync.WaitGroup
}

// overhead is what a task counts besides the bytes that it holds.
const overhead = 512

func newPool(workers int, limit int64) *pool {
	p := &pool{limit: limit}
	p.more.L, p.rest.L = &p.mu, &p.mu
	for range workers {
		p.done.Go(p.work)
	}
	return p
}

func (p *pool) work() {
	for {
		p.mu.Lock()
		for len(p.tasks) == 0 && !p.shut {
			p.more.Wait()
		}
		if len(p.tasks) == 0 {
			p.mu.Unlock()
			return
		}
		task := p.tasks[0]
		p.tasks[0] = nil
		p.tasks = p.tasks[1:]
		p.busy++
		p.mu.Unlock()
		task()
		p.mu.Lock()
		if p.busy--; p.busy == 0 && len(p.tasks) == 0 {
			p.rest.Broadcast()
		}
		p.mu.Unlock()
	}
}

// hold takes room for bytes. It reports false where there is none.
func (p *pool) hold(bytes int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes+bytes+overhead > p.limit {
		return false
	}
	p.bytes += bytes + overhead
	return true
}

// release gives room back that hold has taken.
func (p *pool) release(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes -= bytes + overhead
}

// used returns the bytes that tasks hold.
func (p *pool) used() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// run runs a task behind those before it.
func (p *pool) run(task func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks = append(p.tasks, task)
	p.more.Signal()
}

// call runs a task and waits for it.
func (p *pool) call(task func()) {
	done := make(chan struct{})
	p.run(func() {
		defer close(done)
		task()
	})
	<-done
}

// idle waits until nothing is left to do.
func (p *pool) idle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.busy > 0 || len(p.tasks) > 0 {
		p.rest.Wait()
	}
}

// close runs what is left and ends the workers.
func (p *pool) close() {
	p.mu.Lock()
	p.shut = true
	p.more.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
}
