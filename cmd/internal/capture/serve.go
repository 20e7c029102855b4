package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/agentx/agentx/cmd/internal/capture/finish"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/guard"
)

// Serve carries what comes in on traffic, and answers on admin, until ctx ends. Then it takes no more requests, waits for those
// that run, as long as options say, and finishes all sessions.
func (c *Capture) Serve(ctx context.Context, traffic, admin net.Listener) error {
	tick, stop := context.WithCancel(c.ctx)
	var ticking sync.WaitGroup
	ticking.Go(func() { c.keep(tick) })
	ticking.Go(func() { c.recover(tick) })
	server := c.proxy.Server()
	control := &http.Server{Handler: c.admin(guard.New("--admin", admin.Addr(), c.options.AdminToken)), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(traffic) }()
	go func() { failed <- control.Serve(admin) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	err = errors.Join(err, c.shutDown(server), control.Close())
	c.wait(func() bool { return int(c.recovered.Load()) == len(c.left) })
	stop()
	ticking.Wait()
	return errors.Join(err, c.unfinished(), c.folder.Close())
}

// recover finishes the journals that a crash left, until ctx ends.
func (c *Capture) recover(ctx context.Context) {
	err := finish.Each(ctx, c.folder, c.left, func(k int) error {
		c.turns <- struct{}{}
		r, err := c.finish(c.left[k])
		<-c.turns
		if err == nil {
			c.options.Log.Info("finished a journal that was left", "trace", r.Trace, "recorded", r.Recorded)
		} else {
			c.mu.Lock()
			c.failed++
			c.mu.Unlock()
		}
		c.recovered.Add(1)
		c.pool.news.tell()
		return err
	})
	if err != nil { // of the disk: traffic is carried all the same
		c.options.Log.Error("journals that were left could not be finished: agentx capture finish does it later", "error", err)
	}
}

// shutDown ends the traffic, then the sessions, then the workers. Workers that are stuck do not hold it up: what is known of the
// sessions is written.
func (c *Capture) shutDown(server *http.Server) error {
	c.land(server)
	for range cap(c.turns) - c.options.Workers {
		<-c.turns
	}
	settled := c.wait(c.pool.resting)
	c.sessions.shutdown(true, c.options.Now())
	over := func() bool { return len(c.alive()) == 0 }
	if settled && c.wait(over) {
		c.pool.close()
		return nil
	}
	list := c.alive()
	c.options.Log.Error("workers are stuck: sessions end with what is known of them", "sessions", len(list))
	c.pool.giveUp()
	c.mu.Lock()
	waiting := slices.Collect(maps.Keys(c.waiting))
	c.mu.Unlock()
	for _, x := range waiting {
		x.leave(journal.HoleAborted)
	}
	for _, r := range list {
		r.giveUp()
	}
	if !c.wait(over) {
		return fmt.Errorf("%d sessions could not be written: agentx capture finish %s does it later", len(c.alive()), c.options.Dir)
	}
	return nil
}

// land waits for the exchanges that run, as long as options say, and aborts the others.
func (c *Capture) land(server *http.Server) {
	drain, stop := context.WithTimeout(context.WithoutCancel(c.ctx), c.options.Drain)
	defer stop()
	ended := server.Shutdown(drain) == nil
	landed := func() bool { return c.carrying() == 0 }
	for !landed() && drain.Err() == nil {
		select {
		case <-c.pool.news:
		case <-drain.Done():
		}
	}
	if !ended || !landed() {
		c.proxy.Abort()
		_ = server.Close()
	}
	c.mu.Lock()
	c.landed = true
	c.mu.Unlock()
	c.wait(landed)
}

// wait waits until something is done, as long as workers get something done. It reports whether that happened.
func (c *Capture) wait(done func() bool) bool {
	late := time.NewTimer(c.patience)
	defer late.Stop()
	for before := c.progress(); !done(); {
		select {
		case <-c.pool.news:
			if now := c.progress(); now != before {
				before = now
				late.Reset(c.patience)
			}
		case <-late.C:
			return done()
		}
	}
	return true
}

// progress grows while something gets done.
func (c *Capture) progress() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pool.progress() + c.total.Sessions + int(c.recovered.Load())
}

// keep syncs journals, sweeps sessions and looks at the disk, until ctx ends.
func (c *Capture) keep(ctx context.Context) {
	every := time.Second
	if c.options.Sync > 0 {
		every = min(every, c.options.Sync)
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	taken := c.folder.Context().Done()
	for synced := c.options.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-taken:
			taken = nil
			c.options.Log.Error("nothing is recorded any more: another process has taken the directory", "error", context.Cause(c.folder.Context()))
		case <-ticker.C:
		}
		now := c.options.Now()
		c.sessions.sweep(now)
		c.look()
		if now-synced >= int64(c.options.Sync) {
			c.folder.Sync()
			synced = now
		}
	}
}

// look looks whether the disk is full.
func (c *Capture) look() {
	if c.options.Free != nil {
		free, known := c.options.Free()
		c.full.Store(known && free < c.options.Limits.DiskFree)
	}
}

// unwritable returns why no journal is begun; nil where one can be.
func (c *Capture) unwritable() error {
	switch {
	case c.folder.Context().Err() != nil:
		return errTaken
	case c.full.Load():
		return errDiskFull
	}
	return nil
}
