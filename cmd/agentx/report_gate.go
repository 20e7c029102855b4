package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/agentx/agentx/report"
	"github.com/agentx/agentx/report/aiperf"
	"github.com/agentx/agentx/report/inferencex"
)

// gate is one condition of --gate.
type gate struct {
	name  string
	limit float64
}

// errorRate is the only gate so far: errors over completed requests, as InferenceX computes it.
const errorRate = "error-rate"

// gateVerdict is what a gate says of a run.
type gateVerdict struct {
	Gate   string  `json:"gate"`
	Limit  float64 `json:"limit"`
	Passed bool    `json:"passed"`
	Reason string  `json:"reason,omitempty"`
}

// parseGates reads the values of --gate.
func parseGates(texts []string) (list []gate, errs []error) {
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "=")
		limit, err := strconv.ParseFloat(value, 64)
		if name != errorRate || err != nil || !(limit >= 0 && limit <= 1) {
			errs = append(errs, usageError{fmt.Errorf("%s: want %s=X, X from 0 to 1", flagText("gate", text), errorRate)})
			continue
		}
		list = append(list, gate{name, limit})
	}
	return list, errs
}

// judgeBy returns the verdicts of a check against the limit of each gate.
func judgeBy(list []gate, check func(limit float64) error) (verdicts []gateVerdict) {
	for _, g := range list {
		v := gateVerdict{Gate: g.name, Limit: g.limit, Passed: true}
		if err := check(g.limit); err != nil {
			v.Passed, v.Reason = false, err.Error()
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// gateErrors returns the verdicts that are no, as errors.
func gateErrors(dir string, verdicts []gateVerdict) (errs []error) {
	for _, v := range verdicts {
		if !v.Passed {
			errs = append(errs, verdictError{fmt.Errorf("%s: --gate %s=%v: %s", dir, v.Gate, v.Limit, v.Reason)})
		}
	}
	return errs
}

// judgeResults judges the headline of a run.
func judgeResults(list []gate, res *report.Results) ([]gateVerdict, error) {
	data, err := json.Marshal(aiperf.Blocks(res.Headline))
	return judgeBy(list, func(limit float64) error { return inferencex.GateAggregate(data, limit) }), err
}
