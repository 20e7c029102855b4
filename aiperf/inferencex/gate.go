package inferencex

import (
	"encoding/json"
	"fmt"
	"math"
)

// Gate is the error-rate gate: it says why it accepts the aggregate of a directory, or as an error why it does not. Errors over completed
// requests above the limit are refused; the limit itself passes.
func Gate(dir string, limit float64) (accepted string, no error) {
	data, err := readSmall(dir, AggregateFile)
	if err != nil {
		return "", err
	}
	if data == nil {
		return "", fmt.Errorf("there is no %s", AggregateFile)
	}
	return GateAggregate(data, limit)
}

// GateAggregate is Gate for the content of an aggregate.
func GateAggregate(data []byte, limit float64) (accepted string, no error) {
	aggregate, ok := asObject(data)
	if !ok {
		return "", fmt.Errorf("%s is no JSON object", AggregateFile)
	}
	good, has, err := gateCount(aggregate, "request_count")
	if err != nil {
		return "", err
	}
	if !has {
		return "", fmt.Errorf("request_count.avg is missing")
	}
	failed, _, err := gateCount(aggregate, "error_request_count")
	if err != nil {
		return "", err
	}
	completed, has, err := gateCount(aggregate, "completed_request_count")
	if err != nil {
		return "", err
	}
	if !has {
		completed = good + failed
	}
	if completed <= 0 {
		return "", fmt.Errorf("no request completed: %v succeeded, %v failed", good, failed)
	}
	rate := failed / completed
	if rate > limit {
		return "", fmt.Errorf("error rate %.6g is above %.6g: %v of the %v requests of the headline failed", rate, limit, failed, completed)
	}
	return fmt.Sprintf("error rate %.6g is not above %.6g: %v of the %v requests of the headline failed", rate, limit, failed, completed), nil
}

// gateCount returns the average of a block; false if the block, or its average, is missing.
func gateCount(aggregate object, tag string) (n float64, has bool, err error) {
	v, ok := aggregate[tag]
	if !ok {
		return 0, false, nil
	}
	block, ok := asObject(v)
	if !ok {
		return 0, false, fmt.Errorf("%s is %.20s: want an object", tag, v)
	}
	if v, ok = block["avg"]; !ok {
		return 0, false, nil
	}
	if n, ok = asNumber(v); !ok || n < 0 || math.IsInf(n, 0) {
		return 0, false, fmt.Errorf("%s.avg is %.20s: want a finite number that is not negative", tag, json.RawMessage(v))
	}
	return n, true, nil
}
