package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/capture"
	"github.com/agentx/agentx/internal/suggest"
)

// limit is a limit of a capture by the name that --limit takes.
type limit struct {
	name  string
	value pflag.Value
}

// limitCount is a flag value: a whole number.
type limitCount struct{ to *int }

func (c limitCount) String() string { return strconv.Itoa(*c.to) }

func (c limitCount) Type() string { return "int" }

func (c limitCount) Set(text string) (err error) {
	if *c.to, err = strconv.Atoi(text); err != nil {
		return errors.New("want a whole number")
	}
	return nil
}

// limits lists the limits of a capture. Options.Validate says which values are good.
func limits(l *capture.Limits) []limit {
	return []limit{
		{"request_copy", size{&l.RequestCopy}}, {"reply_copy", size{&l.ReplyCopy}}, {"copies", size{&l.Copies}}, {"queue", size{&l.Queue}},
		{"sessions", limitCount{&l.Sessions}}, {"blocks", limitCount{&l.Blocks}}, {"nodes", limitCount{&l.Nodes}},
		{"header_timeout", duration{&l.HeaderTimeout}}, {"stall", duration{&l.Stall}}, {"disk_free", size{&l.DiskFree}},
	}
}

// limitNames returns the names that --limit takes.
func limitNames() (names []string) {
	for _, l := range limits(&capture.Limits{}) {
		names = append(names, l.name)
	}
	return names
}

// setLimit sets a limit by NAME=VALUE.
func setLimit(to *capture.Limits, text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("want NAME=VALUE")
	}
	list := limits(to)
	k := slices.IndexFunc(list, func(l limit) bool { return l.name == name })
	if k >= 0 {
		return list[k].value.Set(value)
	}
	if near := suggest.Closest(name, limitNames()); near != "" {
		return fmt.Errorf("no limit has this name: %s?", near)
	}
	return fmt.Errorf("no limit has this name: want one of %s", strings.Join(limitNames(), ", "))
}
