package measure

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/terminal"
)

// TimeOptions are the options of a run whose numbers are seconds.
var TimeOptions = strings.Fields(`back-off drain duration first-byte-timeout from gone-after grace interrupt-grace keep-alive lane-start-cap
	max-gap meet-timeout primer-lead-max ramp reset-cache-timeout slice-duration stall-timeout stats-interval system-idle-cap tcp-user-timeout
	timeout to trace-idle-cap tree-idle-cap until-interval wait wait-ready wait-ready-interval warmup-grace`)

// Command returns the command line of a run, for a shell: what was played, and the options that were flags. Options in results have no
// secrets, so that a header, for one, has no value.
func (r *Run) Command(played ...string) string {
	words := []string{"agentx", "replay"}
	for _, name := range played {
		words = append(words, terminal.Word(name))
	}
	for _, o := range r.Options {
		if o.From != "flag" {
			continue
		}
		for _, v := range o.texts() {
			words = append(words, "--"+o.Name+"="+terminal.Word(v))
		}
	}
	return strings.Join(words, " ")
}

// texts returns the values of an option as a command line has them.
func (o *Option) texts() (list []string) {
	var text string
	switch {
	case json.Unmarshal(o.Value, &list) == nil && list != nil:
		return list
	case json.Unmarshal(o.Value, &text) == nil && string(o.Value) != "null":
		return []string{text}
	case slices.Contains(TimeOptions, o.Name) && json.Valid(o.Value) && strings.ContainsAny(string(o.Value), "123456789"):
		return []string{string(o.Value) + "s"}
	}
	return []string{string(o.Value)}
}

// Option returns the value of an option as text; "" where the run does not know it.
func (r *Run) Option(name string) string {
	if k := slices.IndexFunc(r.Options, func(o Option) bool { return o.Name == name }); k >= 0 {
		return strings.Join(r.Options[k].texts(), ",")
	}
	return ""
}

// GPUs returns how many GPUs the run was told that serve it; 0: not known.
func (r *Run) GPUs() int {
	n, err := strconv.Atoi(r.Option("gpus"))
	if err != nil || n < 0 {
		return 0
	}
	return n
}
