package preset

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/suggest"
)

// List returns the names of all switches, in the order of doc/spec/simulate.md 0.3.
func List() []string {
	var list []string
	for field := range reflect.TypeFor[Switches]().Fields() {
		list = append(list, field.Tag.Get("json"))
	}
	return list
}

// Choices returns the values of a switch, the default first; nil for an unknown name.
func Choices(name string) []string { return slices.Clone(choices[name]) }

// Get returns the value of a switch; "" for an unknown name.
func (s Switches) Get(name string) string {
	if k := slices.Index(List(), name); k >= 0 {
		return reflect.ValueOf(s).Field(k).String()
	}
	return ""
}

// Set changes one switch. The error names the nearest switch, or the values that there are.
func (s *Switches) Set(name, value string) error {
	names := List()
	k := slices.Index(names, name)
	if k < 0 {
		if near := suggest.Closest(name, names); near != "" {
			return fmt.Errorf("switch %s: unknown; did you mean %s?", name, near)
		}
		return fmt.Errorf("switch %s: unknown; the switches are %s", name, strings.Join(names, ", "))
	}
	if !slices.Contains(choices[name], value) {
		return fmt.Errorf("switch %s %q: want %s", name, value, strings.Join(choices[name], " or "))
	}
	reflect.ValueOf(s).Elem().Field(k).SetString(value)
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
