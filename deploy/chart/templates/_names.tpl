{{- define "fanin.name" -}}
{{- printf "%s-%s" .Release.Name .Values.device.kind | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* A text as the value of a label: versions may have "+", and be longer than 63 characters. */ -}}
{{- define "fanin.label" -}}
{{- regexReplaceAll "[^A-Za-z0-9]+$" (regexReplaceAll "[^A-Za-z0-9._-]" . "_" | trunc 63) "" }}
{{- end }}

{{- define "fanin.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: {{ .Values.device.kind }}
{{- end }}
