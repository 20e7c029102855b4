package synth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Prefix begins the description of a load of lengths that stands for an input.
const Prefix = "synth:"

// Bounds of a described load, which is held in memory. A request has about a byte for each 12 tokens of its prompt.
const (
	maxDescribed      = 200_000 // requests
	maxDescribedBytes = 1 << 30
)

// Described makes the load that a description says, such as synth:isl=8000,osl=1000,requests=1000, as JSON lines; nil for another text. Its
// keys are the flags of agentx synth.
func Described(text string) ([]byte, error) { return described(text, maxDescribedBytes) }

func described(text string, most int) ([]byte, error) {
	rest, ok := strings.CutPrefix(text, Prefix)
	if !ok {
		return nil, nil
	}
	o := Options{Seed: 42}
	values, err := describedValues(rest)
	if err != nil {
		return nil, err
	}
	for k, v := range values {
		if slices.ContainsFunc(values[:k], func(before [2]string) bool { return before[0] == v[0] }) {
			return nil, fmt.Errorf("%s stands twice: leave one out", v[0])
		}
		if err := o.set(v[0], v[1]); err != nil {
			return nil, err
		}
	}
	if o.Lengths.ISL.kind == "" {
		return nil, fmt.Errorf("isl is missing: want synth:isl=N,osl=N,requests=N")
	}
	if n := o.Count() * o.Lengths.turns(); n > maxDescribed {
		return nil, fmt.Errorf("%d requests: want at most %d: agentx synth --output FILE makes more", n, maxDescribed)
	}
	out := bounded{most: most}
	_, err = Write(context.Background(), &out, o)
	return out.Bytes(), err
}

// bounded keeps what is written, up to a number of bytes.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(line []byte) (int, error) {
	if b.Len()+len(line) > b.most {
		return 0, fmt.Errorf("more than %d bytes of traces: want fewer or shorter requests: agentx synth --output FILE makes more", b.most)
	}
	return b.Buffer.Write(line)
}

// describedValues splits key=value,key=value. A part without = belongs to the value before it: normal:MEAN,SD has a comma.
func describedValues(text string) (list [][2]string, _ error) {
	for part := range strings.SplitSeq(text, ",") {
		key, value, named := strings.Cut(part, "=")
		switch {
		case named:
			list = append(list, [2]string{key, value})
		case len(list) == 0:
			return nil, fmt.Errorf("%q: want key=value", part)
		default:
			list[len(list)-1][1] += "," + part
		}
	}
	return list, nil
}

// set sets an option by the name of its flag.
func (o *Options) set(key, value string) (err error) {
	numbers := map[string]*int{"requests": &o.Lengths.Requests, "traces": &o.Traces, "shared-prefix": &o.Lengths.SharedPrefix, "groups": &o.Lengths.Groups, "turns": &o.Lengths.Turns}
	switch {
	case key == "isl":
		o.Lengths.ISL, err = ParseDistribution(value, key)
	case key == "osl":
		o.Lengths.OSL, err = ParseDistribution(value, key)
	case key == "seed":
		o.Seed, err = strconv.ParseUint(value, 10, 64)
	case key == "gap":
		if seconds, bare := strconv.ParseFloat(value, 64); bare == nil {
			value = fmt.Sprintf("%gs", seconds)
		}
		o.Lengths.Gap, err = time.ParseDuration(value)
	case numbers[key] != nil:
		*numbers[key], err = strconv.Atoi(value)
	default:
		return fmt.Errorf("%q: want isl, osl, requests or traces, shared-prefix, groups, turns, gap, seed", key)
	}
	if number := (*strconv.NumError)(nil); errors.As(err, &number) {
		err = errors.New("want a whole number")
	}
	if err != nil {
		return fmt.Errorf("%s=%s: %w", key, value, err)
	}
	return nil
}
