package runs

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/fit"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// Print prints the result of one run, or of several and of the search that they are of: for people, or as one JSON object. Of several it
// writes the page.
func (p *Player) Print(w io.Writer, list []*Run, a *Answer, asJSON bool) error {
	if len(list) == 1 && a == nil {
		switch r := list[0]; {
		case r.Summary == nil:
			return nil
		case asJSON:
			return r.Summary.WriteJSON(w)
		default:
			return write(w, summaryText(r.Summary)+fitText(list)+comparedText(r)+pageText(r.Page))
		}
	}
	answers := append([]string{}, answers(list, p.Gates)...)
	if a != nil {
		answers = []string{a.Text}
	}
	path, err := p.writePage(list, answers)
	if err != nil {
		return err
	}
	if !asJSON {
		return write(w, p.table(list, answers)+fitText(list)+pageText(path))
	}
	return terminal.JSON(w, struct {
		Runs    []*Run   `json:"runs"`
		Answer  *Answer  `json:"answer"`  // null: nothing was searched
		Answers []string `json:"answers"` // in words
		Out     string   `json:"out"`
		Page    string   `json:"page,omitempty"` // file; empty: none
	}{list, a, answers, p.Files.Dir, path})
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// pageText says where a page is; "": there is none.
func pageText(path string) string {
	if path == "" {
		return ""
	}
	return fmt.Sprintf("page            %s\n", path)
}

// fitText says how far off the fitted engines of runs are; "": none is fitted.
func fitText(list []*Run) string {
	var lines []string
	for _, r := range list {
		for _, e := range r.Config.Engines() {
			if e.Config.Fit == nil {
				continue
			}
			if line := "\nerror of the fit " + e.Config.Fit.String() + "\n"; !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "")
}

// comparedText returns measured beside simulated figures of the load of a run.
func comparedText(r *Run) string {
	if r.Compared == nil {
		return ""
	}
	return fmt.Sprintf("\nof %s requests as they were measured, and %s as they were simulated:\n", bytefmt.Digits(len(r.Config.Measured)), bytefmt.Digits(int(r.Summary.TTFT.N))) + fit.Table(r.Compared)
}

// summaryText returns a summary for people.
func summaryText(s *simulate.Summary) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s"+format+"\n", append([]any{name}, args...)...)
	}
	count := func(n int64) string { return bytefmt.Digits(int(n)) }
	left := ""
	if s.Rejected > 0 {
		left += fmt.Sprintf(", %s rejected", bytefmt.Digits(s.Rejected))
	}
	if s.KVExhausted > 0 {
		left += fmt.Sprintf(", %s outgrew the pool", bytefmt.Digits(s.KVExhausted))
	}
	line("requests", "%s, %s completed%s", bytefmt.Digits(s.Requests), bytefmt.Digits(s.Completed), left)
	line("duration", "%s simulated", seconds(s.Duration))
	line("rates", "%s requests, %s output tokens", rate(s.RequestRate), rate(s.OutputTokenRate))
	line("tokens", "%s prompt, %s output", count(s.InputTokens), count(s.OutputTokens))
	line("reuse", "%s of prompt tokens; %s with an unlimited cache", share(s.Reuse), share(s.ReuseUnlimited))
	line("engines", "%s passes, %s preemptions, %s evictions", count(s.Passes), count(s.Preemptions), count(s.Evictions))
	line("GPU-hours", "%.4g", float64(s.GPUHours))
	if p := s.Planner; p != nil {
		line("planner", "%s ticks, %s changes of a pool's size", bytefmt.Digits(p.Ticks), bytefmt.Digits(p.Transitions))
	}
	if g := s.Goodput; g != nil {
		line("good", "%s of %s requests (%s), %s", bytefmt.Digits(g.Good), bytefmt.Digits(s.Requests), share(g.Ratio), rate(g.RequestRate))
	}
	fmt.Fprintf(&b, "\n%-16s%11s%11s%11s%11s%11s%11s\n", "", "mean", "p50", "p90", "p95", "p99", "max")
	for _, row := range []struct {
		name string
		d    simulate.Distribution
	}{{"ttft", s.TTFT}, {"itl", s.ITL}, {"token gap", s.TokenGap}, {"request latency", s.RequestLatency}} {
		d := row.d
		fmt.Fprintf(&b, "%-16s", row.name)
		for _, v := range []measure.Number{d.Mean, d.P50, d.P90, d.P95, d.P99, d.Max} {
			fmt.Fprintf(&b, "%11s", seconds(v))
		}
		b.WriteByte('\n')
	}
	b.WriteString(tiersText(s))
	if s.Out != "" {
		fmt.Fprintf(&b, "\nresults         %s\n", s.Out)
	}
	return b.String()
}

// tiersText returns the table of tiers; "": there are none below the pool.
func tiersText(s *simulate.Summary) string {
	if len(s.Tiers) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-15s %12s%11s%11s%11s%13s%11s %15s\n", "tier", "blocks", "GiB", "serves", "of hits", "GiB loaded", "link busy", "hits of a GiB")
	number := func(v *float64, format string) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf(format, *v)
	}
	for _, t := range s.Tiers {
		perGiB := "-"
		if t.PerGiB != nil {
			perGiB = bytefmt.Digits(int(*t.PerGiB)) + " tokens"
		}
		fmt.Fprintf(&b, "%-15s %12s%11s%11s%11s%13s%11s %15s\n", t.Name, bytefmt.Digits(int(t.Blocks)), number(t.GiB, "%.2f"), share(t.HitRate), share(t.Share),
			number(t.LoadedGiB, "%.1f"), share(t.Busy), perGiB)
	}
	w := s.LoadWait
	fmt.Fprintf(&b, "\n%s requests waited for loads: mean %s, p50 %s, p95 %s, max %s\n", bytefmt.Digits(int(w.N)), seconds(w.Mean), seconds(w.P50), seconds(w.P95), seconds(w.Max))
	return b.String()
}

func seconds(v measure.Number) string { return measure.FormatFigure(v, slo.Seconds) }
func rate(v measure.Number) string    { return measure.FormatFigure(v, slo.Rate) }
func share(v measure.Number) string   { return measure.FormatFigure(v, slo.Share) }

// columns are those of the table of several runs.
var columns = []struct {
	name string
	of   func(*simulate.Summary) string
}{
	{"completed", func(s *simulate.Summary) string { return bytefmt.Digits(s.Completed) }},
	{"requests", func(s *simulate.Summary) string { return rate(s.RequestRate) }},
	{"out tok/s", func(s *simulate.Summary) string { return strings.TrimSuffix(rate(s.OutputTokenRate), "/s") }},
	{"ttft p50", func(s *simulate.Summary) string { return seconds(s.TTFT.P50) }},
	{"ttft p99", func(s *simulate.Summary) string { return seconds(s.TTFT.P99) }},
	{"itl p50", func(s *simulate.Summary) string { return seconds(s.ITL.P50) }},
	{"gap p99", func(s *simulate.Summary) string { return seconds(s.TokenGap.P99) }},
	{"reuse", func(s *simulate.Summary) string { return share(s.Reuse) }},
	{"good", func(s *simulate.Summary) string {
		if s.Goodput == nil {
			return "-"
		}
		return share(s.Goodput.Ratio)
	}},
	{"GPU-hours", func(s *simulate.Summary) string { return fmt.Sprintf("%.4g", float64(s.GPUHours)) }},
}

// table has a line for each run, and what they answer.
func (p *Player) table(list []*Run, answers []string) string {
	width := len("run")
	for _, r := range list {
		width = max(width, len(r.Name))
	}
	var b strings.Builder
	line := func(name, exit string, cell func(k int) string) {
		fmt.Fprintf(&b, "%-*s", width, name)
		for k := range columns {
			fmt.Fprintf(&b, " %10s", cell(k))
		}
		fmt.Fprintf(&b, " %5s\n", exit)
	}
	line("run", "exit", func(k int) string { return columns[k].name })
	for _, r := range list {
		line(r.Name, strconv.Itoa(r.Exit), func(k int) string {
			if r.Summary == nil {
				return "-"
			}
			return columns[k].of(r.Summary)
		})
	}
	if len(answers) > 0 {
		fmt.Fprintf(&b, "\n%s\n", strings.Join(answers, "\n"))
	}
	if p.Files.Dir != "" {
		fmt.Fprintf(&b, "\n%-16s%s\n", "results", p.Files.Dir)
	}
	return b.String()
}

// answers says where runs begin to keep the gates: for each line of runs that differ in their workers alone the fewest that do; where no
// run differs in workers, the highest concurrency. Without a gate there is nothing to say.
func answers(runs []*Run, gates []simulate.Gate) (list []string) {
	all := axesOf(runs)
	if len(gates) == 0 || len(all) == 0 {
		return nil
	}
	for _, l := range linesOf(runs, all[0], all) {
		if len(l.Runs) < 2 {
			continue
		}
		text := all[0].answer(runs, l.Runs, gates)
		if l.Name != "" {
			text = l.Name + ": " + text
		}
		list = append(list, text)
	}
	return list
}

// answer says which runs of a line keep the gates, and which is the next one that does not.
func (a *axis) answer(runs []*Run, order []int, gates []simulate.Gate) string {
	order = slices.Clone(order)
	if a.moreIsBest {
		slices.Reverse(order)
	}
	number := func(k int) int { return a.of(&runs[order[k]].Config) }
	best := slices.IndexFunc(order, func(k int) bool { return runs[k].Exit == 0 })
	if best < 0 {
		return a.verdict(number(len(order)-1), false, gates)
	}
	text := a.verdict(number(best), true, gates)
	if best > 0 {
		text += "; " + a.others(number(best-1))
	}
	var worse []int // beyond the best one, where requests that share a prefix are spread over more workers
	for k := best + 1; k < len(order); k++ {
		if runs[order[k]].Exit != 0 {
			worse = append(worse, number(k))
		}
	}
	if len(worse) > 0 {
		text += "; " + a.others(worse...)
	}
	return text
}

// verdict says whether a number keeps the gates: "1 worker keeps", "8 workers do not keep", "concurrency 8 keeps".
func (a *axis) verdict(n int, keeps bool, gates []simulate.Gate) string {
	var names []string
	for _, g := range gates {
		names = append(names, g.Text)
	}
	subject, one := fmt.Sprintf("%d %s", n, a.Title), n == 1
	switch {
	case a.moreIsBest:
		subject, one = fmt.Sprintf("%s %d", a.Title, n), true
	case one:
		subject = strings.TrimSuffix(subject, "s")
	}
	verb := map[[2]bool]string{{true, true}: "keeps", {true, false}: "does not keep", {false, true}: "keep", {false, false}: "do not keep"}[[2]bool{one, keeps}]
	return subject + " " + verb + " " + strings.Join(names, " and ")
}

// others says that numbers do not keep the gates that were just named.
func (a *axis) others(list ...int) string {
	var names []string
	for _, n := range list {
		names = append(names, strconv.Itoa(n))
	}
	verb := "do not"
	if len(list) == 1 && (list[0] == 1 || a.moreIsBest) {
		verb = "does not"
	}
	return strings.Join(names, ", ") + " " + verb
}
