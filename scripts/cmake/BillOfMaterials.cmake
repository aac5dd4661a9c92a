# SPDX-License-Identifier: Apache-2.0

# capstan.spdx.json, a software bill of materials (SPDX 2.3): the libraries that this build was configured
# with. On Debian their versions are those of the packages, which security advisories name.
find_program(DPKG_QUERY dpkg-query)
mark_as_advanced(DPKG_QUERY)

set(_packages "")
set(_relationships "")
# capstan_bill_entry(NAME PACKAGE VERSION LICENSE): Debian's PACKAGE if it is installed, else VERSION.
function(capstan_bill_entry name package version license)
  set(reference "")
  if(DPKG_QUERY)
    execute_process(COMMAND ${DPKG_QUERY} -W -f "\${Version} \${Architecture}" ${package}
                    OUTPUT_VARIABLE found RESULT_VARIABLE status ERROR_QUIET)
    if(status EQUAL 0 AND found MATCHES "^([^ ]+) ([^ ]+)$")
      set(version ${CMAKE_MATCH_1})
      string(REPLACE "+" "%2B" escaped ${version})
      set(reference ", \"externalRefs\": [{ \"referenceCategory\": \"PACKAGE-MANAGER\", \
\"referenceType\": \"purl\",
        \"referenceLocator\": \"pkg:deb/debian/${package}@${escaped}?arch=${CMAKE_MATCH_2}\" }]")
    endif()
  endif()
  list(APPEND _packages "    { \"SPDXID\": \"SPDXRef-${name}\", \"name\": \"${name}\", \
\"versionInfo\": \"${version}\",
      \"licenseDeclared\": \"${license}\", \"filesAnalyzed\": false, \
\"downloadLocation\": \"NOASSERTION\"${reference} }")
  list(APPEND _relationships "    { \"spdxElementId\": \"SPDXRef-capstan\", \
\"relationshipType\": \"DEPENDS_ON\", \"relatedSpdxElement\": \"SPDXRef-${name}\" }")
  set(_packages "${_packages}" PARENT_SCOPE)
  set(_relationships "${_relationships}" PARENT_SCOPE)
endfunction()

capstan_bill_entry(fmt libfmt-dev "${fmt_VERSION}" MIT)
capstan_bill_entry(spdlog libspdlog-dev "${spdlog_VERSION}" MIT)
capstan_bill_entry(hwy libhwy-dev "${hwy_VERSION}" Apache-2.0)
capstan_bill_entry(sodium libsodium-dev "${SODIUM_VERSION}" ISC)
capstan_bill_entry(hwloc libhwloc-dev "${HWLOC_VERSION}" BSD-3-Clause)
capstan_bill_entry(CLI11 libcli11-dev "${CLI11_VERSION}" BSD-3-Clause)
capstan_bill_entry(expat libexpat1-dev "${EXPAT_VERSION_STRING}" MIT)
capstan_bill_entry(nlohmann-json nlohmann-json3-dev "${nlohmann_json_VERSION}" MIT)
if(CAPSTAN_HAS_PMIX)
  capstan_bill_entry(pmix libpmix-dev "${PMIX_VERSION}" BSD-3-Clause)
endif()
if(IBVERBS_FOUND)
  capstan_bill_entry(ibverbs libibverbs-dev "${IBVERBS_VERSION}" "GPL-2.0-only OR Linux-OpenIB")
endif()
if(LIBFABRIC_FOUND)
  capstan_bill_entry(fabric libfabric-dev "${LIBFABRIC_VERSION}" "GPL-2.0-only OR BSD-2-Clause")
endif()
if(CAPSTAN_CHART_JS)
  capstan_bill_entry(chart.js libjs-chart.js "" MIT) # part of the program capstan
endif()
list(JOIN _packages ",\n" CAPSTAN_BILL_PACKAGES)
list(JOIN _relationships ",\n" CAPSTAN_BILL_RELATIONSHIPS)
string(SHA1 CAPSTAN_BILL_HASH "${PROJECT_VERSION} ${CAPSTAN_BILL_PACKAGES}")
string(TIMESTAMP CAPSTAN_BILL_CREATED UTC) # honours SOURCE_DATE_EPOCH
configure_file(${CMAKE_CURRENT_LIST_DIR}/capstan.spdx.json.in
               ${PROJECT_BINARY_DIR}/package/capstan.spdx.json @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/capstan.spdx.json DESTINATION ${CMAKE_INSTALL_DATADIR}/capstan
        COMPONENT program)
