package replay

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

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
	for _, url := range distinct(p.URLs) {
		c, err := p.connect(url, preflightTimeout)
		if err != nil {
			return err
		}
		err = p.waitFor(ctx, &preflight{
			Options: p.Options, encoder: p.encoder, client: c, server: RedactURL(url),
			hint: "again without --wait-ready, or with another --wait-ready-mode",
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
		e.Hint = "start the server, correct --url, or a longer --wait-ready"
	case about.again(f):
		e.Hint = "a longer --wait-ready; the log of the server says what it waits for"
	}
	return p.refuse(step, e)
}

// reset empties the prefix cache of every server.
func (p *preparation) reset(ctx context.Context) error {
	if !p.CacheReset.Enabled {
		return nil
	}
	for _, url := range distinct(p.URLs) {
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
	return p.refuse(step, &PreflightError{Reason: fmt.Sprintf("%s: %s", server, resetReason(f, path)), Hint: resetHint(f)})
}

// resetReason says why a server has not reset its cache.
func resetReason(f *wire.Failure, path string) string {
	if f.Code == 0 {
		return messageOf(f)
	}
	return fmt.Sprintf("%d: POST %s: %s", f.Code, path, messageOf(f))
}

func resetHint(f *wire.Failure) string {
	switch {
	case f.Code == 0:
		return "start the server or correct --url"
	case f.Code == 401 || f.Code == 403:
		return keyHint
	case f.Code == 404 || f.Code == 405:
		return "--reset-cache-path PATH (flush_cache of SGLang; vLLM has its path with VLLM_SERVER_DEV_MODE=1)"
	}
	return "again, or without --reset-cache"
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

func (p *preparation) connect(url string, timeout time.Duration) (*wire.Client, error) {
	w := p.clientOptions()
	w.Timeout, w.DialTimeout, w.Reuse = timeout, modelsTimeout, wire.NoReuse
	return wire.New(url, w)
}

// distinct returns the URLs without repetitions.
func distinct(urls []string) (list []string) {
	seen := map[string]bool{}
	for _, url := range urls {
		if !seen[url] {
			list = append(list, url)
		}
		seen[url] = true
	}
	return list
}
