#!/bin/sh
# systemctl enable --now KIND@NAME: starts the line of the unit, and returns when its socket is there.
for unit; do :; done
name=${unit#*@}
line=$(sed -n 's/^ExecStart=//p' "/etc/systemd/system/${unit%@*}@.service" | sed "s,%i,$name,g; s,%t,/run,g")
mkdir -p "/run/fanin/$name" /var/log
setsid $line > "/var/log/$name.log" 2>&1 < /dev/null &
until [ -S "/run/fanin/$name/control.sock" ]; do
    kill -0 $! 2> /dev/null || { cat "/var/log/$name.log" >&2; exit 1; }
    sleep 0.1
done
