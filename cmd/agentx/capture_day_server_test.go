package main

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentx/agentx/capture/canon"
	"github.com/agentx/agentx/internal/mock"
)

// Headers with which clients of a day tell its server what to do. The capture passes them on.
const (
	dayFault   = "X-Day-Fault"
	dayRequest = "X-Day-Request"
	dayEra     = "X-Day-Era"
)

// dayKept bounds the bytes of a reply that are kept to compare them.
const dayKept = 1 << 20

// dayEndless are the faults that last until the client has had enough.
var dayEndless = []string{"stall", "stall-mid", "flood", "comments"}

// dayFaults returns all faults of the mock.
func dayFaults() (kinds []string) {
	for _, k := range mock.FaultKinds {
		kinds = append(kinds, strings.Replace(k.Name, "NNN", "529", 1))
	}
	return kinds
}

// dayUpstream is a mock for every fault, and keeps what they send.
type dayUpstream struct {
	mocks map[string]*mock.Server

	mu       sync.Mutex
	sent     map[string]*daySent // by number of request, until its client has compared it
	arrivals map[int64][]*daySent
}

// daySent is what was sent of a reply.
type daySent struct {
	mu    sync.Mutex
	bytes []byte
	ended time.Time
}

func newDayUpstream() *dayUpstream {
	u := &dayUpstream{mocks: map[string]*mock.Server{}, sent: map[string]*daySent{}, arrivals: map[int64][]*daySent{}}
	config := mock.Config{TTFT: 20 * time.Millisecond, ITL: 10 * time.Millisecond, CacheBlocks: -1}
	u.mocks[""] = mock.New(config)
	for _, kind := range dayFaults() {
		config.Faults = []mock.Fault{{Kind: kind, Rate: 1}}
		u.mocks[kind] = mock.New(config)
	}
	return u
}

func (u *dayUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent := &daySent{}
	era, _ := strconv.ParseInt(r.Header.Get(dayEra), 10, 64)
	_, recorded := canon.FormatOf(r.Method, r.URL.Path)
	u.mu.Lock()
	u.sent[r.Header.Get(dayRequest)] = sent
	if recorded && r.Header.Get("X-Day-Unrecorded") == "" {
		u.arrivals[era] = append(u.arrivals[era], sent)
	}
	u.mu.Unlock()
	defer func() {
		sent.mu.Lock()
		defer sent.mu.Unlock()
		sent.ended = time.Now()
	}()
	u.mocks[r.Header.Get(dayFault)].ServeHTTP(dayWriter{w, sent}, r)
}

// take returns what was sent in reply to a request, and forgets it.
func (u *dayUpstream) take(number string) []byte {
	u.mu.Lock()
	sent := u.sent[number]
	delete(u.sent, number)
	u.mu.Unlock()
	if sent == nil {
		return nil
	}
	sent.mu.Lock()
	defer sent.mu.Unlock()
	kept := sent.bytes
	sent.bytes = nil
	return kept
}

// served returns how many requests came that are recorded while an era lasted, and how many of them were not over for long when it
// ended.
func (u *dayUpstream) served(era int64, end time.Time) (n, late int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.arrivals[era] {
		s.mu.Lock()
		if !end.IsZero() && (s.ended.IsZero() || s.ended.After(end.Add(-dayUnheard))) {
			late++
		}
		s.mu.Unlock()
	}
	return len(u.arrivals[era]), late
}

// dayWriter keeps what is written, before it is.
type dayWriter struct {
	http.ResponseWriter
	sent *daySent
}

func (w dayWriter) Write(p []byte) (int, error) {
	w.sent.mu.Lock()
	w.sent.bytes = append(w.sent.bytes, p[:min(len(p), dayKept-len(w.sent.bytes))]...)
	w.sent.mu.Unlock()
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w dayWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// dayCase is what the end of a reply depends on.
type dayCase struct {
	fault, path string
	stream      bool
}

// dayResult is what a client gets in such a case.
type dayResult struct {
	status int
	broken bool
}

// learn asks the server directly, in every case.
func (d *day) learn() {
	var group sync.WaitGroup
	var mu sync.Mutex
	for _, path := range slices.Sorted(maps.Keys(dayPaths)) {
		for _, kind := range append(dayFaults(), "") {
			for _, stream := range []bool{true, false} {
				group.Go(func() {
					c := d.client(-1)
					c.path = path
					r := c.exchange(d.t.Context(), d.server.URL, dayAsk{dayCase{kind, path, stream}, c.body(stream), nil})
					mu.Lock()
					defer mu.Unlock()
					d.expected[dayCase{kind, path, stream}] = r.dayResult
				})
			}
		}
	}
	group.Wait()
}
