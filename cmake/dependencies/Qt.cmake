# Qt 6, for the desktop application.
shardscope_option(QT "Qt 6 (desktop application)")
if(SHARDSCOPE_WANTS_QT)
  find_package(Qt6 6.4 QUIET COMPONENTS Widgets)
endif()
shardscope_conclude(QT "${Qt6_FOUND}" "version ${Qt6_VERSION} - no room uses it yet" "not found - install qt6-base-dev")
