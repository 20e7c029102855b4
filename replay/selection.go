package replay

import (
	"fmt"
	"slices"

	"github.com/agentx/agentx/mmapcache"
)

// selectTraces returns the positions in the cache of the traces that options select: with MaxContext those whose requests
// all fit it, with overhead tokens added to each prompt.
func selectTraces(o Options, overhead int) (kept []int, err error) {
	peaks := make([]int, o.Cache.Traces())
	if o.MaxContext > 0 {
		if peaks, err = longestRequests(o.Cache, len(peaks), overhead); err != nil {
			return nil, err
		}
	}
	kept = firstFitting(peaks, o.MaxContext, o.Traces)
	if len(kept) == 0 && len(peaks) > 0 {
		err := fmt.Errorf("none of %d traces fits a context of %d tokens: the smallest needs %d", len(peaks), o.MaxContext, slices.Min(peaks))
		if overhead > 0 {
			err = fmt.Errorf("%w, of which %d are a marker, and the chat template as the server counts it", err, overhead)
		}
		return nil, err
	}
	return kept, nil
}

// peakTokens returns the tokens of a trace's longest request, prompt and completion together.
func peakTokens(p *mmapcache.Plan, rules mmapcache.TimeRules, overhead int) (peak int) {
	for _, session := range p.Sessions {
		for k, t := range p.Turns[session.FirstTurn:][:session.Turns] {
			peak = max(peak, promptTokens(p, int(session.FirstTurn), k, rules)+overhead+rules.MaxTokens(session.Kind, t))
		}
	}
	return peak
}

// promptTokens returns the recorded tokens of the prompt of a turn of a session. Where the turns are what is new, those of the turns before
// and of the answers to them count, too.
func promptTokens(p *mmapcache.Plan, first, turn int, rules mmapcache.TimeRules) int {
	tokens := int(p.Turns[first+turn].In)
	if rules.LiveAnswers {
		for _, t := range p.Turns[first : first+turn] {
			tokens += int(t.In) + max(0, int(t.Out))
		}
	}
	return tokens
}

// firstFitting returns the positions of the first traces whose peak fits a context, at most wanted of them. peaks and
// maxContext are in tokens; 0 is no limit. doc/spec/reconstruction.md 7.4.
func firstFitting(peaks []int, maxContext, wanted int) (kept []int) {
	for k, peak := range peaks {
		if wanted > 0 && len(kept) == wanted {
			break
		}
		if maxContext <= 0 || peak <= maxContext {
			kept = append(kept, k)
		}
	}
	return kept
}
