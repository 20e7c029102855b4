package preset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Deviations are switches that differ from a preset, as JSON by name. They are read by the names of before, too.
type Deviations map[string]json.RawMessage

// UnmarshalJSON reads them as results have them.
func (d *Deviations) UnmarshalJSON(text []byte) error {
	var list map[string]json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil || list == nil {
		return err
	}
	*d = Deviations{}
	for name, value := range list {
		(*d)[Renamed(name)] = value
	}
	return nil
}

// Deviations returns the switches whose values differ from those of a preset. It is never nil.
func (s Switches) Deviations(preset string) Deviations {
	base, _ := Named(preset) // an unknown one has no values
	list, same := s.values(), base.values()
	for name, value := range list {
		if bytes.Equal(value, same[name]) {
			delete(list, name)
		}
	}
	return list
}

// values returns all switches as JSON by name.
func (s Switches) values() (list map[string]json.RawMessage) {
	data, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		panic(err) // names, numbers and truth values always marshal
	}
	return list
}

// Recorded returns the switches of a preset with deviations, as Deviations gave them. "" is the preset default.
func Recorded(preset string, deviations Deviations) (s Switches, err error) {
	if preset == "" {
		preset = Default
	}
	s, ok := Named(preset)
	if !ok {
		return s, fmt.Errorf("preset %q: want one of %s", preset, strings.Join(Names, ", "))
	}
	data, err := json.Marshal(deviations)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		err = d.Decode(&s)
	}
	if err != nil {
		return s, fmt.Errorf("switches of preset %s: %w", preset, err)
	}
	return s, nil
}
