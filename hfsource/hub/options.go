package hub

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"
)

// Options configure Fetch. The zero value works: it takes its settings from the environment, verifies every file, and
// waits for other processes that download the same.
type Options struct {
	// CacheRoot is the cache root of agentx. If the hub's own cache cannot be written, downloads go to CacheRoot/hub. With
	// "" there is no such fallback.
	CacheRoot string
	// TrustCached accepts LFS files of the cache by their size, without opening them. The caller then compares what it
	// reads with File.SHA256.
	TrustCached bool
	// ExportDir is the directory that Snapshot.Export will write to. Fetch checks it before the download, unless it is "".
	ExportDir string
	// Version is the version of the program, for the header User-Agent.
	Version string

	// Wait limits how long Fetch waits for another process that downloads the same file: 0 as long as that process is
	// alive, below 0 not at all.
	Wait time.Duration
	// OnWait is called several times per heartbeat of the other process while Fetch waits for it; may be nil.
	OnWait func(holder string, waited time.Duration)

	// Progress is called with the number of bytes that arrived or were verified since the last call, and the size of all
	// files. Several goroutines call it; may be nil.
	Progress func(n, total int64)
	// OnResolved is called once, when the commit is known; may be nil.
	OnResolved func(*Snapshot)
	// Logf is called with warnings for the user: waits, and copies that are not used; may be nil.
	Logf func(format string, args ...any)

	// Env looks up environment variables; nil is os.LookupEnv.
	Env LookupEnv
	// Transport carries the requests; nil is the network, with the proxies of the environment.
	Transport http.RoundTripper

	rand func() float64 // numbers in [0, 1) for the jitter of retries; nil is math/rand
}

// Validate reports the first option that Fetch refuses.
func (o Options) Validate() error {
	for _, c := range []byte(o.Version) {
		if c < ' ' || c > '~' {
			return &Error{Class: ClassInvalid, Text: fmt.Sprintf("option Version %q: want printable ASCII", o.Version)}
		}
	}
	return nil
}

// withDefaults replaces nil fields by their defaults.
func (o Options) withDefaults() Options {
	if o.Env == nil {
		o.Env = os.LookupEnv
	}
	if o.rand == nil {
		o.rand = rand.Float64
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	if o.OnResolved == nil {
		o.OnResolved = func(*Snapshot) {}
	}
	if o.OnWait == nil {
		o.OnWait = func(string, time.Duration) {}
	}
	return o
}
