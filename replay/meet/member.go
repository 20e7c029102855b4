package meet

import (
	"fmt"
	"slices"
	"strings"
)

// Member is what a part says of itself. All parts of a load must say the same, but for Part and Host.
type Member struct {
	Part    int      `json:"part"` // 0 to Of-1
	Of      int      `json:"of"`
	Host    string   `json:"host"`
	Version string   `json:"version"` // of agentx
	Dataset string   `json:"dataset"` // its key
	Options []Option `json:"options"`
}

// Option is the value of an option.
type Option struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// name returns the part and its machine.
func (m *Member) name() string { return nameOf(m.Part, m.Of, m.Host) }

func nameOf(part, of int, host string) string { return fmt.Sprintf("part %d/%d (%s)", part, of, host) }

// differs returns the first difference between two parts of one load, "" if there is none: what, and the values of both.
func (m *Member) differs(other *Member) (what, mine, others string) {
	for _, p := range [][3]string{
		{"the number of parts", fmt.Sprint(m.Of), fmt.Sprint(other.Of)},
		{"the version of agentx", m.Version, other.Version},
		{"the dataset", m.Dataset, other.Dataset},
	} {
		if p[1] != p[2] {
			return p[0], p[1], p[2]
		}
	}
	for k := range max(len(m.Options), len(other.Options)) {
		switch {
		case k >= len(m.Options):
			return other.Options[k].Name, "absent", other.Options[k].Value
		case k >= len(other.Options):
			return m.Options[k].Name, m.Options[k].Value, "absent"
		case m.Options[k].Name != other.Options[k].Name:
			return "the options", m.Options[k].Name, other.Options[k].Name
		case m.Options[k].Value != other.Options[k].Value:
			return m.Options[k].Name, m.Options[k].Value, other.Options[k].Value
		}
	}
	return "", "", ""
}

// listParts lists numbers of parts, such as "part 3" or "parts 1, 4-7".
func listParts(numbers []int) string {
	slices.Sort(numbers)
	var ranges []string
	for k := 0; k < len(numbers); {
		first := numbers[k]
		for k++; k < len(numbers) && numbers[k] == numbers[k-1]+1; k++ {
		}
		if last := numbers[k-1]; last > first {
			ranges = append(ranges, fmt.Sprintf("%d-%d", first, last))
		} else {
			ranges = append(ranges, fmt.Sprint(first))
		}
	}
	if len(numbers) == 1 {
		return "part " + ranges[0]
	}
	return "parts " + strings.Join(ranges, ", ")
}
