package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// Readiness says how a run waits until its servers serve its model. The zero value does not wait.
type Readiness struct {
	Timeout  time.Duration // no attempt starts later; 0: the run does not wait
	Mode     ReadyMode
	Interval time.Duration // from the end of an attempt to the next
}

// ReadyMode is how a server shows that it serves a model.
type ReadyMode uint8

// The ways to show it.
const (
	ReadyByInference ReadyMode = iota // it answers a request for one token
	ReadyByModels                     // it lists the model
	ReadyByBoth                       // it lists the model, and then answers a request for one token
)

// CacheReset says how a run empties the prefix caches of its servers. The zero value leaves them as they are.
type CacheReset struct {
	Enabled bool
	Path    string        // below the root of a server, with or without a slash in front
	Timeout time.Duration // of one attempt
}

// preparation brings the servers of a run to where it can begin: it waits for the model, and resets the caches.
type preparation struct {
	Options
	encoder *payload.Encoder
	clock   pauseClock
	notice  func(string)
	steps   []measure.PreparationStep
}

// wait waits until every server serves the model. One instant ends the wait for all of them.
func (p *preparation) wait(ctx context.Context) error {
	if p.Readiness.Timeout == 0 {
		return nil
	}
	until := p.clock.now() + p.Readiness.Timeout
	for k, url := range p.URLs {
		if slices.Contains(p.URLs[:k], url) {
			continue
		}
		c, err := p.connect(url, preflightTimeout)
		if err != nil {
			return err
		}
		err = p.waitFor(ctx, &preflight{
			Options: p.Options, encoder: p.encoder, client: c, server: RedactURL(url),
			hint: preset.Text("again without {wait-ready}, or with another {wait-ready-mode}").String(),
		}, until)
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// waitFor waits until one server serves the model.
func (p *preparation) waitFor(ctx context.Context, server *preflight, until time.Duration) error {
	try := server.probeOnce
	switch p.Readiness.Mode {
	case ReadyByModels:
		try = server.findModel
	case ReadyByBoth:
		try = func(ctx context.Context) *wire.Failure {
			if f := server.findModel(ctx); f != nil {
				return f
			}
			return server.probeOnce(ctx)
		}
	}
	about := waitPatience(p.Readiness.Interval, until)
	step, f, err := p.run(ctx, measure.PreparationWait, server.server, about, try)
	if err != nil {
		return err
	}
	if f == nil {
		p.notice(fmt.Sprintf("wait: %s serves %q: %s", server.server, p.Model, tries(step)))
		return nil
	}
	if f.Code > 0 && server.asked != askedModels {
		server.listModels(ctx)
	}
	e := server.explain(ctx, f)
	switch {
	case about.again(f) && f.Code == 0:
		e.Hint = preset.Text("start the server, correct {url}, or a longer {wait-ready}").String()
	case about.again(f):
		e.Hint = preset.Text("a longer {wait-ready}; the log of the server says what it waits for").String()
	}
	return p.refuse(step, e)
}

// reset empties the prefix cache of every server.
func (p *preparation) reset(ctx context.Context) error {
	if !p.CacheReset.Enabled {
		return nil
	}
	for k, url := range p.URLs {
		if slices.Contains(p.URLs[:k], url) {
			continue
		}
		c, err := p.connect(url, p.CacheReset.Timeout)
		if err != nil {
			return err
		}
		err = p.resetOne(ctx, c, RedactURL(url))
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// resetOne empties the prefix cache of one server.
func (p *preparation) resetOne(ctx context.Context, c *wire.Client, server string) error {
	path := "/" + strings.TrimLeft(p.CacheReset.Path, "/")
	about := resetPatience(p.clock.now())
	step, f, err := p.run(ctx, measure.PreparationReset, server, about, func(ctx context.Context) *wire.Failure {
		_, f := c.Post(ctx, path)
		return f
	})
	if err != nil {
		return err
	}
	if f == nil {
		p.notice(fmt.Sprintf("reset: %s has emptied its prefix cache: %s", server, tries(step)))
		return nil
	}
	return p.refuse(step, &PreflightError{Reason: fmt.Sprintf("%s: %s", server, resetReason(f, path)), Hint: resetHint(f).String()})
}

// resetReason says why a server has not reset its cache.
func resetReason(f *wire.Failure, path string) string {
	if f.Code == 0 {
		return messageOf(f)
	}
	return fmt.Sprintf("%d: POST %s: %s", f.Code, path, messageOf(f))
}

// resetHint returns what may help where a server does not reset its cache.
func resetHint(f *wire.Failure) preset.Text {
	switch {
	case f.Code == 0:
		return "start the server or correct {url}"
	case f.Code == 401 || f.Code == 403:
		return keyHint
	case f.Code == 404 || f.Code == 405:
		return "{reset-cache-path} PATH (flush_cache of SGLang; vLLM has its path with VLLM_SERVER_DEV_MODE=1)"
	}
	return "again, or without {reset-cache}"
}

// run makes the attempts of a step at one server, and notes them.
func (p *preparation) run(ctx context.Context, name, server string, about patience, try func(context.Context) *wire.Failure) (*measure.PreparationStep, *wire.Failure, error) {
	begin := p.clock.now()
	n, f, err := about.attempts(ctx, p.clock, try, func(f *wire.Failure) {
		p.notice(fmt.Sprintf("%s: %s: %s: trying again for %v at most", name, server, messageOf(f), (about.until - p.clock.now()).Round(time.Second)))
	})
	step := measure.PreparationStep{Step: name, URL: server, Attempts: n, Seconds: (p.clock.now() - begin).Seconds(), Outcome: measure.PreparationDone}
	switch {
	case f != nil && about.again(f):
		step.Outcome = measure.PreparationTimeout
	case f != nil:
		step.Outcome = measure.PreparationRefused
	}
	p.steps = append(p.steps, step)
	return &p.steps[len(p.steps)-1], f, err
}

// refuse notes why a step has failed, and returns that as the error of the run.
func (p *preparation) refuse(step *measure.PreparationStep, e *PreflightError) *PreflightError {
	e.Step = step.Step
	if step.Outcome == measure.PreparationTimeout {
		e.Reason += ": gave up after " + tries(step)
	}
	step.Error = e.Reason
	return e
}

// tries says how many attempts a step took, and how long.
func tries(s *measure.PreparationStep) string {
	return fmt.Sprintf("%s in %.1f s", measure.Plural(s.Attempts, "attempt", "attempts"), s.Seconds)
}

// connect returns a client with a connection for each request, so that none is kept while the run waits.
func (p *preparation) connect(url string, timeout time.Duration) (*wire.Client, error) {
	w := p.clientOptions()
	w.Timeout, w.DialTimeout, w.Reuse = timeout, modelsTimeout, wire.NoReuse
	return wire.New(url, w)
}

// pauseClock tells the time of a preparation and waits.
type pauseClock interface {
	now() time.Duration
	// pause returns after d, or at once with an error when ctx ends.
	pause(ctx context.Context, d time.Duration) error
}

// machineClock is the pauseClock of a run. It counts from an instant.
type machineClock struct{ epoch time.Time }

func (c machineClock) now() time.Duration { return time.Since(c.epoch) }

func (c machineClock) pause(ctx context.Context, d time.Duration) error { return durable.Sleep(ctx, d) }

// patience says which failures of a step are tried again, and when: doc/spec/replay.md 2.8.
type patience struct {
	statuses func(status int) bool            // of answers that may get better
	until    time.Duration                    // no attempt starts later
	after    func(attempts int) time.Duration // how long to wait after so many attempts
}

// waitPatience is that of the wait for the model, whose attempts begin until the given instant.
func waitPatience(interval, until time.Duration) patience {
	return patience{
		statuses: func(s int) bool { return s == 404 || s == 408 || s == 425 || s == 429 || s/100 == 5 },
		until:    until, after: func(int) time.Duration { return interval },
	}
}

// What is tried when a server does not reset its cache.
const (
	resetFor      = 60 * time.Second // from the first attempt to the start of the last
	maxResetPause = 8 * time.Second
)

// resetPatience is that of the reset of one server, whose first attempt begins at an instant.
func resetPatience(begin time.Duration) patience {
	return patience{
		statuses: func(s int) bool { return s == 409 || s == 423 || s == 429 || s == 503 },
		until:    begin + resetFor, after: func(attempts int) time.Duration { return min(time.Second<<(attempts-1), maxResetPause) },
	}
}

// again reports whether a failure may get better: there was no answer, or one with such a status.
func (p patience) again(f *wire.Failure) bool {
	if f.Code == 0 {
		return f.Category == wire.Connection || f.Category == wire.Timeout
	}
	return p.statuses(f.Code)
}

// attempts tries until a step is done, its failure cannot get better, or the patience is over. It returns how many attempts
// were made, and the last failure; nil: the step is done. It calls failing after the first failure that is tried again. The
// error is that of a context that has ended.
func (p patience) attempts(ctx context.Context, c pauseClock, try func(context.Context) *wire.Failure, failing func(*wire.Failure)) (n int, f *wire.Failure, err error) {
	f = &wire.Failure{Category: wire.Connection, Message: "no time was left for an attempt"}
	for c.now() <= p.until {
		f = try(ctx)
		n++
		if ctx.Err() != nil {
			return n, f, context.Cause(ctx)
		}
		pause := p.after(n)
		if f == nil || !p.again(f) || c.now()+pause > p.until {
			return n, f, nil
		}
		if n == 1 {
			failing(f)
		}
		if err := c.pause(ctx, pause); err != nil {
			return n, f, err
		}
	}
	return n, f, nil
}
