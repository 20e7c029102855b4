package hfsource

import (
	"fmt"
	"io"
	"runtime"

	"github.com/agentx/agentx/hfsource/hub"
)

// Options configure Resolve. The zero value works, for inputs other than standard input.
type Options struct {
	Stdin    io.Reader         // for the input "-"; nil: that input is refused
	Embedded map[string][]byte // JSON lines by name, for inputs of such a name that are not a path
	Workers  int               // files that are hashed at a time; 0: one per CPU
	Progress func(bytes int64) // called with the bytes hashed since the last call, by several goroutines; may be nil
	Texts    []TextFormat      // whose files are read besides those of JSON and Parquet

	Hub    hub.Options // for datasets of the hub; Resolve sets TrustCached from Verify
	Verify bool        // read the files of datasets that are in the cache, and download damaged ones again
}

// Validate reports the first option that Resolve refuses.
func (o Options) Validate() error {
	if o.Workers < 0 {
		return fmt.Errorf("option Workers: %d: want 0 (one per CPU) or more", o.Workers)
	}
	if err := o.Hub.Validate(); err != nil {
		return fmt.Errorf("option Hub: %w", err)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	o.Hub.TrustCached = !o.Verify
	return o
}
