package replay

import (
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// clientOptions returns what the clients of a run share.
func (o *Options) clientOptions() wire.Options {
	w := wire.Options{
		Timeout: o.Timeout, StallTimeout: max(0, o.StallTimeout), FirstByteTimeout: max(0, o.FirstByteTimeout), UserTimeout: o.TCPUserTimeout, KeepAlive: o.KeepAlive, Reuse: o.Reuse,
		OverflowRegexps: o.OverflowPatterns, Header: o.Header, APIKey: o.APIKey,
	}
	w.TLS, _ = o.TLS.config() // Validate has read it
	w.TextTokens = o.switches().TextTokens
	w.AIPerfForms = o.switches().AIPerfForms
	switch o.switches().OverflowWords {
	case preset.WordsOfAIPerf:
		w.OverflowPatterns = wire.AIPerfOverflowPatterns
	case preset.NoWords:
		w.OverflowPatterns = []string{}
	}
	if o.Provenance.Version != "" {
		w.UserAgent = wire.DefaultUserAgent + "/" + o.Provenance.Version
	}
	return w
}

// servers are the clients of a run, one for each of its URLs. Trees are dealt to them in the order in which they open, and
// all sessions of a tree use one server, in every phase: what a parent left in a prefix cache is there for its children.
type servers struct {
	clients []*wire.Client
	indexes []int // what records point to
}

// connect returns clients of servers. Nothing is sent yet.
func connect(urls []string, o wire.Options) (s servers, err error) {
	for k, url := range urls {
		c, err := wire.New(url, o)
		if err != nil {
			return servers{}, err
		}
		s.clients, s.indexes = append(s.clients, c), append(s.indexes, k)
	}
	return s, nil
}

// of returns the client of a tree, by its number in the whole load.
func (s *servers) of(tree int) *wire.Client { return s.clients[tree%len(s.clients)] }

// route returns the route of a tree to its server, by its number in the whole load: trees take the addresses of a server in turn.
func (s *servers) route(tree int) *wire.Route { return wire.NewRoute(tree / len(s.indexes)) }

// indexOf returns the position of a tree's URL in those of the run; nil: the run has one.
func (s *servers) indexOf(tree int) *int {
	if len(s.indexes) == 1 {
		return nil
	}
	return &s.indexes[tree%len(s.indexes)]
}

func (s *servers) close() {
	for _, c := range s.clients {
		c.Close()
	}
}
