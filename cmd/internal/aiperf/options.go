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
	JSON   bool          // the aggregate alone, or beside the table
	CSV    bool          // the table alone, or beside the aggregate
}

// Validate returns an error that names the first field that cannot be used.
func (o Options) Validate() error {
	switch {
	case o.Slice < 0:
		return fmt.Errorf("slice %v: want 0 or more", o.Slice)
	case o.Slice > 0 && o.Slice < time.Millisecond:
		return fmt.Errorf("slice %v: want at least 1ms: every slice has all metrics", o.Slice)
	}
	return checkPrefix(o.Prefix)
}
