#!/bin/sh
# agentx of agentx-replay. It tells of another agentx on the PATH, for other distributions own a script of that name, and becomes the program.
here=${0%/*}
[ -x "$here/agentx-replay" ] || here=$(dirname "$(readlink -f "$0")")
case " $* ${AGENTX_QUIET:+--quiet} " in
*" --quiet "*) ;;
*)
	IFS=:
	for folder in $PATH; do
		if [ -x "$folder/agentx" ] && [ -f "$folder/agentx" ] && ! [ "$folder/agentx" -ef "$0" ]; then
			echo "agentx: note: this is agentx of agentx-replay; the PATH also has $folder/agentx: agentx-replay is this one's own name" >&2
			break
		fi
	done
	unset IFS
	;;
esac
exec "$here/agentx-replay" "$@"
