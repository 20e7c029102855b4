package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// bashWords replaces what the script for bash asks of the package bash-completion: without it, the words of the line up to the cursor, of
// which bash has cut those with = and : into several.
const bashWords = `    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local line="${COMP_LINE:0:COMP_POINT}" i word
    words=() cword=-1
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if [[ ${cword} -lt 0 || ${line} == [[:space:]]* ]]; then
            line="${line#"${line%%[![:space:]]*}"}"
            cword=$((cword + 1))
            words[cword]=""
        fi
        word="${COMP_WORDS[i]}"
        if [[ ${i} -eq ${COMP_CWORD} ]]; then
            word="${line}"
        fi
        words[cword]="${words[cword]}${word}"
        line="${line#"${word}"}"
    done
    cur="${words[cword]}"
    prev=""
    if [[ ${cword} -gt 0 ]]; then
        prev="${words[cword-1]}"
    fi
`

// zshRegister replaces the registration of the script for zsh, which wants compinit to have run: else it waits for the first prompt.
const zshRegister = `if (( $+functions[compdef] )); then
    compdef _agentx agentx
else
    __agentx_register() {
        add-zsh-hook -d precmd __agentx_register
        (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
        compdef _agentx agentx
    }
    autoload -Uz add-zsh-hook && add-zsh-hook precmd __agentx_register
fi
`

// setCompletion makes cobra's verb completion write scripts that need neither bash-completion nor a compinit before them.
func setCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	completion.Args, completion.RunE = refuseArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for shell, script := range map[string]struct {
		write    func(w io.Writer, described bool) error
		old, new string
	}{
		"bash": {root.GenBashCompletionV2, "    COMPREPLY=()\n    _get_comp_words_by_ref \"$@\" cur prev words cword\n", bashWords},
		"zsh": {func(w io.Writer, described bool) error {
			if described {
				return root.GenZshCompletion(w)
			}
			return root.GenZshCompletionNoDesc(w)
		}, "compdef _agentx agentx\n", zshRegister},
	} {
		cmd, _, _ := completion.Find([]string{shell})
		cmd.Long = fmt.Sprintf("Print the script with which %s completes command lines of agentx. It needs nothing else.", shell)
		cmd.Example = fmt.Sprintf("  source <(agentx completion %s)        # in this shell; in ~/.%src for all", shell, shell)
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			var text bytes.Buffer
			plain, _ := cmd.Flags().GetBool("no-descriptions")
			if err := script.write(&text, !plain); err != nil {
				return err
			}
			_, err := io.WriteString(cmd.OutOrStdout(), strings.Replace(text.String(), script.old, script.new, 1))
			return err
		}
	}
}
