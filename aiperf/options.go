package aiperf

import (
	"fmt"
	"time"
)

// Options say which files Write writes, and where. The zero value writes all of them to the directory of the run.
type Options struct {
	Out    string        // directory, which is made if it is missing; "": that of the run
	Prefix string        // of the names of all files; "": those of AIPerf
	Slice  time.Duration // length of the slices of time; 0: none
	Parts  Parts         // 0: all
}

// Parts are some of the files.
type Parts uint8

// The files that can be written without the others.
const (
	AggregatePart Parts = 1 << iota // JSON
	TablePart                       // CSV
)

// Validate returns an error that names the first field that cannot be used.
func (o Options) Validate() error {
	switch {
	case o.Slice < 0:
		return fmt.Errorf("slice %v: want no negative duration", o.Slice)
	case o.Slice > 0 && o.Slice < time.Millisecond:
		return fmt.Errorf("slice %v: want at least 1ms: every slice has all metrics", o.Slice)
	case o.Parts&^(AggregatePart|TablePart) != 0:
		return fmt.Errorf("parts %b: want %b, %b or both", o.Parts, AggregatePart, TablePart)
	}
	return checkPrefix(o.Prefix)
}
