package meet

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/lazyregexp"
	"github.com/agentx/agentx/replay/preset"
)

// AddressOfEnvironment returns where the parts of a load meet, as the engine that has started them says it; "": it does not. The error
// names a variable whose value cannot be used.
func AddressOfEnvironment(lookup func(string) (string, bool)) (string, error) {
	host, port, err := hostOfEnvironment(lookup)
	if err != nil || host == "" {
		return "", err
	}
	if text, ok := lookup("AGENTX_MEET_PORT"); ok {
		if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
			return "", fmt.Errorf("AGENTX_MEET_PORT=%s: want 1 to 65535", text)
		}
	}
	if port < 1 || port > 65535 {
		return "", fmt.Errorf("MASTER_ADDR=%s without a MASTER_PORT from 1 to 65534: want AGENTX_MEET_PORT, or %s HOST:PORT, or none", host, preset.Setting("meet"))
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// hostOfEnvironment returns the host of part 0, "" if the environment does not say it, and the port that it has without AGENTX_MEET_PORT.
func hostOfEnvironment(lookup func(string) (string, bool)) (host string, port int, err error) {
	if _, slurm := lookup("SLURM_PROCID"); slurm {
		for _, name := range []string{"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"} {
			list, ok := lookup(name)
			if !ok {
				continue
			}
			if host, err = firstHost(list); err != nil {
				return "", 0, fmt.Errorf("%s=%s: %w", name, list, err)
			}
			number := func(name string) int {
				text, _ := lookup(name)
				n, _ := strconv.ParseUint(text, 10, 31) // 0 where there is none
				return int(n)
			}
			return host, 20000 + (1000*(number("SLURM_STEP_ID")%10)+number("SLURM_JOB_ID"))%10000, nil
		}
	}
	if _, torch := lookup("RANK"); !torch {
		return "", 0, nil
	}
	host, _ = lookup("MASTER_ADDR")
	text, _ := lookup("MASTER_PORT")
	if port, err = strconv.Atoi(text); err != nil {
		port = 0
	} else {
		port++ // torch's store listens on the port itself
	}
	return host, port, nil
}

// bracket matches several hosts in one word of Slurm, such as [01-03,07], with the first.
var bracket = lazyregexp.New(`\[([^],-]+)[^]]*\]`)

// firstHost returns the first host of a list as Slurm writes it, such as node01 of node[01-03,07],gpu2.
func firstHost(list string) (string, error) {
	host, _, _ := strings.Cut(bracket().ReplaceAllString(list, "$1"), ",")
	if host == "" || strings.ContainsAny(host, "[] \t") {
		return "", errors.New("want a list of hosts such as node[01-03,07],gpu2")
	}
	return host, nil
}
