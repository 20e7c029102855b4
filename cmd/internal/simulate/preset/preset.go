// Package preset names the switches in which two dated states of Dynamo's offline replay, and what is right, differ:
// doc/spec/simulate.md 0.3.
//
// A preset is a name for one value of all [Switches]. A run starts from a preset and may then set any switch by itself:
//
//	s, ok := preset.Named("dynamo-2026-04")
//	err := s.Set("admission", "gate")
//
// No other package knows the name of a preset.
package preset

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Names are the presets, the default first.
var Names = []string{Default, Dynamo16, August, April}

// The names of the presets.
const (
	Default  = "default"        // the rules that are right
	Dynamo16 = "dynamo-1.6"     // Dynamo 1.6.1
	August   = "dynamo-2026-08" // Dynamo of August 2026
	April    = "dynamo-2026-04" // Dynamo of April 2026, at its PR 8280
)

// Choice is a value of a switch.
type Choice string

// Switches are all switches. Their names as JSON, and their values, are those of doc/spec/simulate.md 0.3. The tag words has the values of one, the
// default first, and under its value under each of Names.
type Switches struct {
	Admission         Choice `json:"admission" words:"gate preempt" under:"gate gate gate preempt"`                                                 // what a waiting request does: it waits until its blocks fit beside those of running ones, or preempts them
	FullHit           Choice `json:"full_hit" words:"recompute_last free" under:"recompute_last recompute_last recompute_last free"`                // what a prompt costs whose blocks are all cached: the block with the last token, or nothing
	Alloc             Choice `json:"alloc" words:"all_or_nothing partial" under:"all_or_nothing all_or_nothing all_or_nothing partial"`             // what becomes of a reservation that the pool cannot meet: nothing, or what there is, is kept
	BlockVisible      Choice `json:"block_visible" words:"scheduled allocated" under:"scheduled scheduled scheduled allocated"`                     // from when on other requests find a block: when its last token is scheduled, or when it is allocated
	Duplicates        Choice `json:"duplicates" words:"copies merge" under:"copies copies copies merge"`                                            // two blocks with the same content: both stay until they are evicted, or are merged
	SampledBlock      Choice `json:"sampled_block" words:"next_schedule at_emission" under:"next_schedule next_schedule next_schedule at_emission"` // when a generated token needs its block: when it is scheduled, which the last one never is, or at emission
	FirstToken        Choice `json:"first_token" words:"with_decode at_prefill" under:"with_decode at_prefill with_decode with_decode"`             // what the first token needs besides its prefill: a place in the decode part of the pass, or nothing
	DecodeKV          Choice `json:"decode_kv" words:"logical unique_blocks" under:"logical logical logical unique_blocks"`                         // which tokens a decode step reads: the known lengths of the requests that emit, or the active blocks, shared ones once
	KVEvents          Choice `json:"kv_events" words:"pass_end pass_start" under:"pass_end pass_end pass_end pass_start"`                           // when the router learns which blocks a pass stores and evicts
	ConcurrencyUnit   Choice `json:"concurrency_unit" words:"sessions requests" under:"sessions sessions sessions requests"`                        // what a concurrency counts: open sessions, thinking or not, or requests in flight
	Impossible        Choice `json:"impossible" words:"reject dead_end" under:"reject reject reject dead_end"`                                      // a request that the pool can never hold: it is rejected, or the run ends with an error
	IDWidth           Choice `json:"id_width" words:"64 32" under:"64 32 32 32"`                                                                    // how many low bits of a hash id count
	RouterCost        Choice `json:"router_cost" words:"credit weight" under:"credit credit credit weight"`                                         // overlap reduces the prefill load of the worker, or the prompt of the request
	RouterLoad        Choice `json:"router_load" words:"begun full" under:"begun full begun begun"`                                                 // which blocks of prompts at work are load to a router: all that they begin, or full ones alone, and in a disaggregated fleet none of prefill workers and none shared on decode workers
	RouterTie         Choice `json:"router_tie" words:"least_dispatched random" under:"least_dispatched random random random"`                      // which of several workers of the same cost is taken; random: from the seeded stream
	TrafficNumReq     Choice `json:"traffic_num_req" words:"offered completed" under:"offered offered offered completed"`                           // which requests a traffic window counts: those that arrive in it, or that complete in it
	TickTime          Choice `json:"tick_time" words:"nominal last_event_shared last_event" under:"nominal nominal last_event_shared last_event"`   // where the deadlines of the planner lie: at multiples of the interval, or one interval after the last event before the tick, on one clock for both intervals or on one each
	Balance           Choice `json:"balance" words:"steady pr8280" under:"steady steady steady pr8280"`                                             // an aggregated engine keeps up with its own prefill where a step admits what it finishes; pr8280: a factor of the derivation is missing
	Bootstrap         Choice `json:"bootstrap" words:"on off" under:"on off on on"`                                                                 // whether the models of a planner begin with the engine's own timing
	Consolidation     Choice `json:"consolidation" words:"on off" under:"on on on off"`                                                             // a step down needs survivors that can carry the load
	ScaleWhileScaling Choice `json:"scale_while_scaling" words:"off on" under:"off off off on"`                                                     // load may scale a disaggregated fleet that is still scaling
	IdleEngine        Choice `json:"idle_engine" words:"last empty" under:"last empty last last"`                                                   // what a planner takes for the state of an engine that has ended no pass for a second: that of its last pass, or nothing
	Planning          Choice `json:"planning" words:"loops pipeline" under:"loops pipeline loops loops"`                                            // how a planner works: two loops over lines that passes have fed, or the pipeline of Dynamo 1.6.1 over its regression
	LaneIdle          Choice `json:"lane_idle" words:"capped uncapped" under:"capped uncapped capped capped"`                                       // whether the idle times of a tree that a lane plays are cut at tree-idle-cap, where that is not set by itself
	HitDiscount       Choice `json:"hit_discount" words:"on off" under:"on on on off"`                                                              // a cached prefix is no prefill work to the planner
	Predictor         Choice `json:"predictor" words:"kalman constant arima" under:"kalman arima arima arima"`                                      // how the next traffic window is foretold; arima: a planner refuses it, agentx has none
}

// The values by which something is decided.
const (
	AdmitGate           Choice = "gate"
	FullHitFree         Choice = "free"
	AllocPartial        Choice = "partial"
	VisibleAllocated    Choice = "allocated"
	DuplicatesMerge     Choice = "merge"
	SampledAtEmission   Choice = "at_emission"
	FirstAtPrefill      Choice = "at_prefill"
	KVUniqueBlocks      Choice = "unique_blocks"
	EventsPassStart     Choice = "pass_start"
	UnitRequests        Choice = "requests"
	ImpossibleDeadEnd   Choice = "dead_end"
	Width32             Choice = "32"
	CostCredit          Choice = "credit"
	CostWeight          Choice = "weight"
	LoadFull            Choice = "full"
	IdleUncapped        Choice = "uncapped"
	TieRandom           Choice = "random"
	CountOffered        Choice = "offered"
	TickNominal         Choice = "nominal"
	TickLastEventShared Choice = "last_event_shared"
	TickLastEvent       Choice = "last_event"
	BalancePR8280       Choice = "pr8280"
	IdleEmpty           Choice = "empty"
	PlanningPipeline    Choice = "pipeline"
	PredictARIMA        Choice = "arima"
	On                  Choice = "on"
)

// of returns where the value of a switch is, and its tags.
func (s *Switches) of(name string) (*Choice, reflect.StructTag) {
	for f, v := range reflect.ValueOf(s).Elem().Fields() {
		if f.Tag.Get("json") == name {
			return v.Addr().Interface().(*Choice), f.Tag
		}
	}
	return new(Choice), ""
}

// List returns the names of all switches, in the order of doc/spec/simulate.md 0.3.
func List() (list []string) {
	for field := range reflect.TypeFor[Switches]().Fields() {
		list = append(list, field.Tag.Get("json"))
	}
	return list
}

// Values returns the value of a switch under each preset of Names.
func Values(name string) []string {
	_, tag := new(Switches).of(name)
	return strings.Fields(tag.Get("under"))
}

// Choices returns the values of a switch, the default first; none for an unknown name.
func Choices(name string) []string {
	_, tag := new(Switches).of(name)
	return strings.Fields(tag.Get("words"))
}

// Get returns the value of a switch; "" for an unknown name.
func (s Switches) Get(name string) string {
	value, _ := s.of(name)
	return string(*value)
}

// Set changes one switch. The error names the values that there are.
func (s *Switches) Set(name, value string) error {
	if words := Choices(name); !slices.Contains(words, value) {
		return fmt.Errorf("switch %s %q: want %s", name, value, strings.Join(words, " or "))
	}
	to, _ := s.of(name)
	*to = Choice(value)
	return nil
}

// Validate returns an error that names the first switch whose value does not exist.
func (s Switches) Validate() error {
	for _, name := range List() {
		if err := (&Switches{}).Set(name, s.Get(name)); err != nil {
			return err
		}
	}
	return nil
}

// Named returns the switches of a preset. ok is false for an unknown name.
func Named(name string) (s Switches, ok bool) {
	k := slices.Index(Names, name)
	if k < 0 {
		return s, false
	}
	for f, v := range reflect.ValueOf(&s).Elem().Fields() {
		v.SetString(strings.Fields(f.Tag.Get("under"))[k])
	}
	return s, true
}
