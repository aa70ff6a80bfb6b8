{{- define "retentive.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "retentive.name" -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- define "retentive.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- define "retentive.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: ["ALL"]}
image: {{ include "retentive.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}
{{- define "retentive.from" -}}
{{- if .Values.locationSecret -}}
envFrom:
  - secretRef: {name: {{ .Values.locationSecret }}}
{{- end }}
{{- end }}
