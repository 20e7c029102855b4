package capture

import (
	"slices"
	"sync"
	"weak"

	"github.com/agentx/agentx/cmd/internal/capture/chain"
)

// recent has the sessions that requests of a client have joined last without their head having named one. The body of the next request
// probably begins like one that they have had, which need not be read to find out what it joins.
type recent struct {
	mu      sync.Mutex
	clients map[string][]weak.Pointer[chain.Tree] // the latest first
}

// Bounds of what is remembered: a session more costs a look at each body, and the clients beyond are forgotten together.
const (
	maxRecent  = 4
	maxClients = 4096
)

// of returns those of a client.
func (r *recent) of(client identity) (trees []*chain.Tree) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.clients[client.session] {
		if t := p.Value(); t != nil {
			trees = append(trees, t)
		}
	}
	return trees
}

// add notes that a request of a client has joined a session. t may be nil.
func (r *recent) add(client identity, t *chain.Tree) {
	if t == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	list, known := r.clients[client.session]
	if r.clients == nil || !known && len(r.clients) >= maxClients {
		r.clients = map[string][]weak.Pointer[chain.Tree]{}
	}
	p := weak.Make(t)
	list = slices.DeleteFunc(list, func(other weak.Pointer[chain.Tree]) bool { return other == p })
	list = slices.Insert(list, 0, p)
	r.clients[client.session] = list[:min(len(list), maxRecent)]
}
