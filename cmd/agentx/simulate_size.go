package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/simulate"
	"github.com/agentx/agentx/simulate/comparison"
)

// sizing is a search for the fewest workers.
type sizing struct {
	least, most int
}

// sizeAnswer is what a search found.
type sizeAnswer struct {
	Workers *int     `json:"workers"` // the fewest that keep every gate; null: none of those tried do
	Tried   []int    `json:"tried"`
	Gates   []string `json:"gates"`
	Text    string   `json:"text"`
}

// maxSized bounds a search without a bound of its own.
const maxSized = 256

// sizing reads auto[:FROM-TO]; nil for another value of --workers. The search is one of 1 where the value is wrong.
func (f *simulateFlags) sizing() (*sizing, error) {
	rest, auto := strings.CutPrefix(f.workers, "auto")
	if !auto {
		return nil, nil
	}
	s := &sizing{1, maxSized}
	if f.router == string(simulate.KVRouter) { // which needs a choice
		s.least = 2
	}
	if rest == "" {
		return s, nil
	}
	from, to, ok := strings.Cut(strings.TrimPrefix(rest, ":"), "-")
	var errs [2]error
	s.least, errs[0] = strconv.Atoi(from)
	s.most, errs[1] = strconv.Atoi(to)
	if !strings.HasPrefix(rest, ":") || !ok || errs != [2]error{} || s.least < 1 || s.most < s.least {
		return &sizing{1, 1}, fmt.Errorf("--workers %s: want auto, or auto:FROM-TO such as auto:2-64", f.workers)
	}
	return s, nil
}

// fleetSizes returns the numbers of --workers.
func (f *simulateFlags) fleetSizes() (list []int) {
	if s, _ := f.sizing(); s != nil { // simulate tells the error
		return []int{s.least}
	}
	for text := range strings.SplitSeq(f.workers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			f.add("--workers %s: want a number from 1, several with commas, or auto", f.workers)
			return []int{1}
		}
		if slices.Contains(list, n) {
			f.add("--workers %s: %d twice", f.workers, n)
		}
		list = append(list, n)
	}
	return list
}

// sizedRun is a probe of a search.
func sizedRun(workers int, base simulate.Config) *simulateRun {
	r := &simulateRun{Name: "workers-" + strconv.Itoa(workers), config: base}
	r.config.Workers = workers
	return r
}

// findSize searches for the fewest workers with which a run keeps its gates: it doubles their number until one does, and halves what
// lies between. More workers are taken to be no worse.
func (f *simulateFlags) findSize(ctx context.Context, s *sizing, base simulate.Config) ([]*simulateRun, *sizeAnswer, error) {
	a := &sizeAnswer{}
	for _, g := range f.gateList {
		a.Gates = append(a.Gates, g.Text)
	}
	var tried []*simulateRun
	defer func() {
		slices.SortFunc(tried, func(x, y *simulateRun) int { return x.config.Workers - y.config.Workers })
	}()
	keeps := func(n int) (bool, error) {
		r := sizedRun(n, base)
		f.play(ctx, []*simulateRun{r})
		tried, a.Tried = append(tried, r), append(a.Tried, n)
		if r.Exit == exitFailed {
			return false, fmt.Errorf("%s: %w", r.Name, r.err)
		}
		return r.Exit == 0, nil
	}
	low, n := s.least-1, s.least // with low it does not keep them
	for {
		ok, err := keeps(n)
		if err != nil {
			return tried, a, err
		}
		if ok {
			break
		}
		if low = n; n == s.most {
			a.Text = comparison.TooFewWorkers(n, f.gateList)
			return tried, a, nil
		}
		n = min(2*n, s.most)
	}
	for n-low > 1 {
		middle := low + (n-low)/2
		ok, err := keeps(middle)
		if err != nil {
			return tried, a, err
		}
		if ok {
			n = middle
		} else {
			low = middle
		}
	}
	if low < s.least {
		low = 0 // fewer are not asked for
	}
	a.Workers = &n
	a.Text = comparison.FewestWorkers(n, low, f.gateList)
	return tried, a, nil
}
