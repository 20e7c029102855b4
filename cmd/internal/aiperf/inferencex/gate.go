package inferencex

import (
	"errors"
	"fmt"
	"math"
)

// Gate is the error-rate gate: it says why it accepts the aggregate of a directory, or as an error why it does not. Errors over completed
// requests above the limit are refused; the limit itself passes.
func Gate(dir string, limit float64) (accepted string, no error) {
	data, err := readSmall(dir, aggregateFile)
	if err != nil {
		return "", err
	}
	return GateAggregate(data, limit)
}

// GateAggregate is Gate for the content of an aggregate; nil: there is none.
func GateAggregate(data []byte, limit float64) (accepted string, no error) {
	if data == nil {
		return "", fmt.Errorf("there is no %s", aggregateFile)
	}
	aggregate, ok := objectOf(data)
	if !ok {
		return "", fmt.Errorf("%s is not a JSON object", aggregateFile)
	}
	var counts [3]float64
	var has [3]bool
	for k, tag := range []string{"request_count", "error_request_count", "completed_request_count"} {
		var err error
		if counts[k], has[k], err = gateCount(aggregate, tag); err != nil {
			return "", err
		}
		if !has[0] {
			return "", errors.New("request_count.avg is missing")
		}
	}
	good, failed, completed := counts[0], counts[1], counts[2]
	if !has[2] {
		completed = good + failed
	}
	if completed <= 0 {
		return "", fmt.Errorf("no request completed: %v succeeded, %v failed", good, failed)
	}
	rate, than := failed/completed, "is not above"
	if rate > limit {
		than = "is above"
	}
	verdict := fmt.Sprintf("error rate %.6g %s %.6g: %v of the %v requests of the headline failed", rate, than, limit, failed, completed)
	if rate > limit {
		return "", errors.New(verdict)
	}
	return verdict, nil
}

// gateCount returns the average of a block; false if the block, or its average, is missing.
func gateCount(aggregate object, tag string) (n float64, has bool, err error) {
	v, ok := aggregate[tag]
	if !ok {
		return 0, false, nil
	}
	block, ok := objectOf(v)
	if !ok {
		return 0, false, fmt.Errorf("%s is %.20s: want an object", tag, v)
	}
	if v, ok = block["avg"]; !ok {
		return 0, false, nil
	}
	if n, ok = number(decode(v)); !ok || n < 0 || math.IsInf(n, 0) {
		return 0, false, fmt.Errorf("%s.avg is %.20s: want a finite number that is not negative", tag, v)
	}
	return n, true, nil
}
