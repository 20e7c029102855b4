package replay

import (
	"time"
)

// Readiness says how a run waits until its servers serve its model. The zero value does not wait.
type Readiness struct {
	Timeout  time.Duration // no attempt starts later; 0: the run does not wait
	Mode     ReadyMode
	Interval time.Duration // from the end of an attempt to the next
}

// ReadyMode is how a server shows that it serves a model.
type ReadyMode uint8

// The ways to show it.
const (
	ReadyByInference ReadyMode = iota // it answers a request for one token
	ReadyByModels                     // it lists the model
	ReadyByBoth                       // it lists the model, and then answers a request for one token
)

// CacheReset says how a run empties the prefix caches of its servers. The zero value leaves them as they are.
type CacheReset struct {
	Enabled bool
	Path    string        // below the root of a server, with or without a slash in front
	Timeout time.Duration // of one attempt
}
