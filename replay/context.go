package replay

import (
	"io/fs"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
)

// ServerContext is a MaxContext: as many tokens as the server has, which tells them to the preflight.
const ServerContext = -1

// fitContext chooses the traces again where the preflight has found what fits: the length of the server's context, or a chat template, which
// leaves less of it than overhead did before. It notes how many traces are too long, and says so.
func (r *run) fitContext(before int) error {
	again := r.MaxContext > 0 && r.overhead() > before
	p := r.results.info.Preflight
	if r.MaxContext == ServerContext {
		r.MaxContext, again = int(*p.ContextTokens), true
	}
	if again {
		if err := r.chooseTraces(); err != nil {
			return err
		}
	}
	c := &measure.Context{Tokens: r.MaxContext, Traces: r.found, LeftOut: r.found - r.fitting}
	if p != nil && p.ContextTokens != nil {
		c.Server, c.From = int(*p.ContextTokens), p.ContextFrom
		above, err := r.above(c.Server)
		if err != nil {
			return err
		}
		c.Above = above
	}
	if c.Tokens == 0 && c.Server == 0 {
		return nil
	}
	r.results.info.Context = c
	if text := c.Skipped(); text != "" {
		r.reporter.notice(text)
	}
	if text := c.Played(); text != "" {
		r.reporter.warn(text)
	}
	return nil
}

// above counts the traces that are played and have a request of more than some tokens.
func (r *run) above(tokens int) (n int, err error) {
	last := -1
	for _, k := range r.traces {
		last = max(last, k)
	}
	peaks, err := longestRequests(r.Cache, last+1, r.overhead())
	if err != nil {
		return 0, err
	}
	for _, k := range r.traces {
		if peaks[k] > tokens {
			n++
		}
	}
	return n, nil
}

// longestRequests returns the tokens of the longest request of each of the first n traces, prompt and completion together, with overhead
// tokens added to each prompt.
func longestRequests(c *mmapcache.Cache, n, overhead int) (peaks []int, err error) {
	err = c.EachShard(func(first int, s *mmapcache.Structure) error {
		for k := 0; k < s.Traces.Len() && first+k < n; k++ {
			peaks = append(peaks, peakTokens(s.Plan(k), c.Facts.Rules, overhead))
		}
		if len(peaks) == n {
			return fs.SkipAll
		}
		return nil
	})
	return peaks, err
}
