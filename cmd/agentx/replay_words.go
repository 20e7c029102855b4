package main

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/agentx/agentx/cmd/internal/settings"
)

// wordRows say what a reader of the results should know: doc/spec/report.md 3.4. The results have them among the options of the run, of which
// they change nothing.
func wordRows() []settings.Setting {
	row := func(name, help string) settings.Setting {
		return settings.Setting{Name: name, Group: settings.Results, Plain: name == "label" || name == "note", Kind: settings.Checked(checkWords), Default: "", Help: help}
	}
	return []settings.Setting{
		row("label", "name of the run in pages, comparisons and indexes"),
		row("note", "a remark of yours on the run, for its page"),
		row("engine", "which inference engine serves, and how it is set, for the page: 'sglang 0.5.4, tp 8'"),
		row("gpu", "which GPUs serve, for the page: H200"),
		{Name: "gpus", Group: settings.Results, Kind: settings.Count, Default: 0, Help: "how many GPUs serve: the page then has output tokens per second and GPU; 0: not known"},
	}
}

// maxWords bounds what people write for people, bytes.
const maxWords = 500

// checkWords returns an error about what is no short line.
func checkWords(text string) error {
	if len(text) > maxWords || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("want one line of at most %d bytes", maxWords)
	}
	return nil
}
