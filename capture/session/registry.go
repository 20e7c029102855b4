package session

import (
	"cmp"
	"container/list"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentx/agentx/capture/journal"
)

// Why a request, or a call on the admin listener, is refused. The texts are those of the admin listener.
var (
	ErrNotFound = errors.New("session not found")
	ErrClosing  = errors.New("session closing")
	ErrBusy     = errors.New("session busy")
	ErrTooMany  = errors.New("too many sessions")
)

// Bounds of what is remembered.
const (
	maxAgents     = 1 << 14   // of a session: one more finishes it
	maxTombstones = 4096      // sessions that are finished and still known
	tombstoneLife = time.Hour // how long they are
)

// Options of a registry.
type Options[R Recorder] struct {
	Limit   int           // of sessions that are not finished; one more finishes the one that is idle longest
	Idle    time.Duration // a session that is idle so long is finished
	Drain   time.Duration // how long a closing session waits for its requests
	Linear  bool          // a session has at most one request in flight
	Random  io.Reader     // of ids
	Used    []string      // traces whose ids no session gets: there are files of them
	Open    func(*Session[R]) R
	Clients *Clients
}

// Registry knows the sessions. Its lock is held for as long as it takes to look into a map.
type Registry[R Recorder] struct {
	options Options[R]

	mu       sync.Mutex
	current  map[string]*Session[R] // by key: the one that requests join, or the last one
	byID     map[string]*Session[R] // that are not forgotten
	parents  map[string]string      // links of chains, with their sources
	used     map[traceID]bool       // that a trace has
	resting  list.List              // *Session, open and without requests in flight: that which is idle longest first
	closing  map[*Session[R]]bool
	open     int           // sessions
	finished []*Session[R] // tombstones, oldest first
}

// NewRegistry returns a registry without sessions.
func NewRegistry[R Recorder](o Options[R]) *Registry[R] {
	r := &Registry[R]{options: o, current: map[string]*Session[R]{}, byID: map[string]*Session[R]{}, parents: map[string]string{}, used: map[traceID]bool{}, closing: map[*Session[R]]bool{}}
	for _, trace := range o.Used {
		if id, err := hex.DecodeString(strings.TrimPrefix(trace, tracePrefix)); err == nil && len(id) == len(traceID{}) {
			r.used[traceID(id)] = true
		}
	}
	r.options.Used = nil
	return r
}

// traceID is what of the name of a trace is drawn.
type traceID [4]byte

const tracePrefix = "cap-"

// ends are sessions that a call has finished. Their recorders hear of it behind the lock.
type ends[R Recorder] []*Session[R]

func (e ends[R]) tell() {
	for _, s := range e {
		s.Recorder.Finish(s.why)
	}
}

// Join puts a request that arrived at an instant into its session, which is made if there is none that is open. head is what
// tells the client apart where the identity leads nowhere.
//
// Where sessions are linear it also takes the slot of the session. The error is ErrClosing or ErrBusy then, and nil otherwise.
func (r *Registry[R]) Join(id Identity, head Head, at int64) (t Ticket[R], err error) {
	var over ends[R]
	defer func() { over.tell() }()
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := id
	key, agent, parent, ok := r.resolve(id)
	if !ok {
		id = r.options.Clients.Identity(head)
		key, agent, parent = id.Session, "", ""
	}
	s := r.current[key]
	if r.options.Linear && s != nil && (s.state == Closing || s.held) {
		if s.state == Closing {
			return t, ErrClosing
		}
		return t, ErrBusy
	}
	if s == nil || s.state != Open || len(s.agents) >= maxAgents && s.agents[agent] == 0 && agent != "" {
		if s != nil {
			over = r.close(over, s, journal.WhyLimit, at)
		}
		if s, over, err = r.begin(over, key, id.By, "", at); err != nil {
			return t, err
		}
	}
	if asked.Chain {
		r.link(s, asked)
	}
	if !s.begun {
		s.begun, s.start = true, at
	}
	s.arrived = max(s.arrived, at) // goroutines may come here in another order than that in which they read the clock
	t = Ticket[R]{Session: s, Q: s.requests, T: max(0, s.arrived-s.start), Place: s.place(agent, parent, id.Via), Marked: id.Marked && agent == ""}
	s.requests++
	s.inFlight++
	s.held = r.options.Linear
	s.last = max(s.last, at)
	r.wake(s)
	return t, nil
}

// rest puts a session behind those that are idle longer, and wake takes it from among them.
func (r *Registry[R]) rest(s *Session[R]) { s.resting = r.resting.PushBack(s) }

func (r *Registry[R]) wake(s *Session[R]) {
	if s.resting != nil {
		r.resting.Remove(s.resting)
		s.resting = nil
	}
}

// idlest returns the open session that has been idle longest, nil where all have requests in flight.
func (r *Registry[R]) idlest() *Session[R] {
	if first := r.resting.Front(); first != nil {
		return first.Value.(*Session[R])
	}
	return nil
}

// begin makes a session. Where there are too many it finishes the one that is idle longest.
func (r *Registry[R]) begin(over ends[R], key string, by journal.By, id string, at int64) (*Session[R], ends[R], error) {
	if r.full() {
		if idle := r.idlest(); idle != nil {
			over = r.close(over, idle, journal.WhyLimit, at)
		}
	}
	trace, err := r.draw()
	if err != nil {
		return nil, over, err
	}
	s := &Session[R]{ID: cmp.Or(id, trace), Trace: trace, By: by, key: key, last: at}
	s.Recorder = r.options.Open(s)
	r.current[key], r.byID[s.ID], r.byID[s.Trace] = s, s, s
	r.open++
	r.rest(s)
	return s, over, nil
}

// full reports whether there are as many sessions that are not finished as there may be.
func (r *Registry[R]) full() bool {
	return r.options.Limit > 0 && r.open+len(r.closing) >= r.options.Limit
}

// draw draws the name of a trace that none had before.
func (r *Registry[R]) draw() (string, error) {
	var id traceID
	for drawn := false; !drawn || r.used[id]; drawn = true {
		if _, err := io.ReadFull(r.options.Random, id[:]); err != nil {
			return "", fmt.Errorf("an id for a trace: %w", err)
		}
	}
	r.used[id] = true
	return tracePrefix + hex.EncodeToString(id[:]), nil
}

// Leave ends a request.
func (r *Registry[R]) Leave(s *Session[R], at int64) {
	var over ends[R]
	defer func() { over.tell() }()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.inFlight--
	s.held = false
	s.last = max(s.last, at)
	switch {
	case s.inFlight > 0:
	case s.state == Closing:
		over = r.finish(over, s, at)
	case s.state == Open:
		r.rest(s)
	}
}

// Close makes a session take no more requests. It is finished when those in flight are over. Closing it again does nothing.
func (r *Registry[R]) Close(s *Session[R], why journal.Why, at int64) {
	var over ends[R]
	defer func() { over.tell() }()
	r.mu.Lock()
	defer r.mu.Unlock()
	over = r.close(over, s, why, at)
}

func (r *Registry[R]) close(over ends[R], s *Session[R], why journal.Why, at int64) ends[R] {
	if s.state != Open {
		return over
	}
	s.state, s.why, s.closed = Closing, why, at
	r.wake(s)
	r.open--
	r.closing[s] = true
	if s.inFlight == 0 {
		over = r.finish(over, s, at)
	}
	return over
}

func (r *Registry[R]) finish(over ends[R], s *Session[R], at int64) ends[R] {
	s.state, s.closed = Finished, at
	delete(r.closing, s)
	for _, id := range s.ids {
		delete(r.parents, id)
	}
	s.ids, s.agents = nil, nil
	r.finished = append(r.finished, s)
	if len(r.finished) > maxTombstones {
		r.forget(1)
	}
	return append(over, s)
}

// forget drops the oldest tombstones.
func (r *Registry[R]) forget(n int) {
	for _, s := range r.finished[:n] {
		delete(r.byID, s.ID)
		delete(r.byID, s.Trace)
		if r.current[s.key] == s {
			delete(r.current, s.key)
		}
	}
	r.finished = slices.Delete(r.finished, 0, n)
}

// Sweep finishes sessions that have been idle too long, gives up requests of sessions that have been closing too long, and
// forgets those that were finished an hour ago. It is called now and then.
func (r *Registry[R]) Sweep(at int64) {
	var over ends[R]
	defer func() { over.tell() }()
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := r.idlest(); s != nil && r.options.Idle > 0 && at-s.last >= int64(r.options.Idle); s = r.idlest() {
		over = r.close(over, s, journal.WhyIdle, at)
	}
	for s := range r.closing {
		if at-s.closed >= int64(r.options.Drain) {
			over = r.finish(over, s, at)
		}
	}
	old := 0
	for old < len(r.finished) && at-r.finished[old].closed >= int64(tombstoneLife) {
		old++
	}
	r.forget(old)
}

// Shutdown closes all sessions. force gives up what is in flight.
func (r *Registry[R]) Shutdown(force bool, at int64) {
	var over ends[R]
	defer func() { over.tell() }()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.byID {
		over = r.close(over, s, journal.WhyShutdown, at)
		if force && s.state == Closing {
			over = r.finish(over, s, at)
		}
	}
}

// Create makes a session without requests, for the prefix of a path.
func (r *Registry[R]) Create(at int64) (s *Session[R], err error) {
	var over ends[R]
	defer func() { over.tell() }()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full() && r.idlest() == nil {
		return nil, ErrTooMany
	}
	name := make([]byte, 16)
	if _, err := io.ReadFull(r.options.Random, name); err != nil {
		return nil, fmt.Errorf("an id for a session: %w", err)
	}
	id := hex.EncodeToString(name)
	s, over, err = r.begin(over, "url "+id, journal.ByURL, id, at)
	return s, err
}

// Delete closes a session by its id.
func (r *Registry[R]) Delete(id string, at int64) error {
	var over ends[R]
	defer func() { over.tell() }()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byID[id]
	if s == nil {
		return ErrNotFound
	}
	if s.state != Open {
		return ErrClosing
	}
	over = r.close(over, s, journal.WhyDelete, at)
	return nil
}

// Get returns a session by its id.
func (r *Registry[R]) Get(id string) (*Session[R], Info, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.byID[id]
	if s == nil {
		return nil, Info{}, ErrNotFound
	}
	return s, s.info(), nil
}

// List returns all sessions that are known, by their traces.
func (r *Registry[R]) List() []*Session[R] {
	r.mu.Lock()
	var list []*Session[R]
	for id, s := range r.byID {
		if id == s.Trace {
			list = append(list, s)
		}
	}
	r.mu.Unlock() // requests wait for it
	slices.SortFunc(list, func(a, b *Session[R]) int { return cmp.Compare(a.Trace, b.Trace) })
	return list
}

// Info returns what a listener may say of a session.
func (r *Registry[R]) Info(s *Session[R]) Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.info()
}

func (s *Session[R]) info() Info {
	return Info{Trace: s.Trace, State: s.state.String(), Requests: s.requests, InFlight: s.inFlight}
}

// Counts returns how many sessions there are in each state.
func (r *Registry[R]) Counts() [3]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return [3]int{Open: r.open, Closing: len(r.closing), Finished: len(r.finished)}
}
