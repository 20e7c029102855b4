package server

import (
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
)

// endpointInfo says how a page answered over the whole run. An update is an answer in which a value differs from the one before.
type endpointInfo struct {
	Fetches        int     `json:"total_fetches"` // that were answered
	FirstFetch     int64   `json:"first_fetch_ns"`
	LastFetch      int64   `json:"last_fetch_ns"`
	Latency        float64 `json:"avg_fetch_latency_ms"`
	Updates        int     `json:"unique_updates"`
	FirstUpdate    int64   `json:"first_update_ns"`
	LastUpdate     int64   `json:"last_update_ns"`
	Duration       float64 `json:"duration_seconds"` // from the first update to the last
	UpdateInterval float64 `json:"avg_update_interval_ms"`

	MedianUpdate *float64 `json:"median_update_interval_ms,omitempty"` // nil: there is one update
}

// describe describes an endpoint that has answered. Its first answer is an update.
func describe(e *scrape.Endpoint) (info endpointInfo) {
	first, last := e.Answers[0], e.Answers[len(e.Answers)-1]
	info.Fetches, info.FirstFetch, info.LastFetch = len(e.Answers), first.At, last.At
	info.FirstUpdate, info.LastUpdate = first.At, first.At
	var gaps []float64
	for k, a := range e.Answers {
		info.Latency += float64(a.Took) / 1e6 / float64(len(e.Answers))
		if k > 0 && a.Changed {
			gaps = append(gaps, float64(a.At-info.LastUpdate)/1e6)
			info.LastUpdate = a.At
		}
	}
	info.Updates, info.Duration = len(gaps)+1, float64(info.LastUpdate-info.FirstUpdate)/1e9
	if len(gaps) > 0 {
		info.UpdateInterval = info.Duration * 1e3 / float64(len(gaps))
		slices.Sort(gaps)
		median := measure.Percentile(gaps, 50)
		info.MedianUpdate = &median
	}
	return info
}

// phasesOf returns the phases of a run by name. The error names one that cannot be cut into slices.
func phasesOf(run *measure.RunInfo) (map[string]span, error) {
	list := map[string]span{}
	for _, p := range run.Phases {
		start, seconds := p.Start.UnixNano(), p.Duration
		if !(seconds >= 0 && seconds <= maxSlices*scrape.Interval.Seconds()) || p.Start.Year() < 1970 || p.Start.Year() > 2200 {
			return nil, fmt.Errorf("phase %s: start %v, duration %g s: want at most %d slices of %v after 1970", p.Name, p.Start, seconds, maxSlices, scrape.Interval)
		}
		list[p.Name] = span{start, start + int64(math.Round(seconds*1e9))}
	}
	return list, nil
}

// maxSlices bounds the slices of a phase.
const maxSlices = 1 << 20
